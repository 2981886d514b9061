/*
 * Two threads, each with its own queue and pages, keep up to 24 random reads and writes in flight, and discard pages.
 * They compare what each read returns with a reference.
 */
#include "common/random.h"
#include "tests/func/client/rig.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 2u
#define PAGES 4096u /* pages of each thread */
#define DEPTH 24u
#define RUN 24u
#define REQUESTS 20000u

struct worker {
	struct rig *rig;
	struct store_queue *queue;
	uint64_t seed, first;
	pthread_t thread;
	uint32_t versions[PAGES]; /* 0 for a page of zeroes */
	bool busy[PAGES];
	struct {
		struct store_io io;
		uint32_t versions[RUN]; /* new versions of the pages of a write */
		bool active;
	} slots[DEPTH];
	unsigned active;
	uint32_t version;
	_Atomic unsigned wrong, failed, done;
};

static bool range_take(struct worker *worker, uint32_t page, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (worker->busy[page + i])
			return false;
	memset(worker->busy + page, true, count);
	return true;
}

static void slot_start(struct worker *worker, struct random_state *random, unsigned index)
{
	uint32_t count = 1 + (uint32_t)random_below(random, random_below(random, 4) ? 2 : RUN);
	uint32_t page = (uint32_t)random_below(random, PAGES - count);
	struct store_io *io = &worker->slots[index].io;
	uint64_t kind = random_below(random, 10);

	if (!range_take(worker, page, count))
		return;
	*io =
	    (struct store_io){.op = kind < 5 ? STORE_READ : STORE_WRITE,
			      .count = count,
			      .page = worker->first + page,
			      .data = worker->rig->bytes + ((worker->first / PAGES * DEPTH + index) * RUN) * STORE_PAGE,
			      .buffer = worker->rig->buffer,
			      .cookie = index};
	if (kind == 9) {
		store_discard(worker->rig->store, io->page, count);
		memset(worker->versions + page, 0, count * sizeof *worker->versions);
		memset(worker->busy + page, false, count);
		return;
	}
	for (uint32_t i = 0; i < count && io->op == STORE_WRITE; i++) {
		worker->slots[index].versions[i] = random_below(random, 8) ? ++worker->version : 0;
		if (worker->slots[index].versions[i])
			rig_fill((uint8_t *)io->data + i * STORE_PAGE, io->page + i, worker->version);
		else
			memset((uint8_t *)io->data + i * STORE_PAGE, 0, STORE_PAGE);
	}
	if (store_submit(worker->queue, io, 1) == 1) {
		worker->slots[index].active = true;
		worker->active++;
	} else {
		memset(worker->busy + page, false, count);
	}
}

static void slot_end(struct worker *worker, const struct store_done *done)
{
	const struct store_io *io = &worker->slots[done->cookie].io;
	uint32_t page = (uint32_t)(io->page - worker->first);

	worker->failed += done->status != 0;
	for (uint32_t i = 0; i < io->count; i++) {
		const uint8_t *data = (const uint8_t *)io->data + i * STORE_PAGE;
		uint32_t version = worker->versions[page + i];

		if (io->op == STORE_WRITE)
			worker->versions[page + i] = worker->slots[done->cookie].versions[i];
		else
			worker->wrong += !(version ? rig_is(data, io->page + i, version) : rig_is_zero(data));
		worker->busy[page + i] = false;
	}
	worker->slots[done->cookie].active = false;
	worker->active--;
	worker->done++;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct random_state random;
	struct store_done dones[DEPTH];

	random_seed(&random, worker->seed);
	while (worker->done < REQUESTS) {
		for (unsigned i = 0; i < DEPTH; i++)
			if (!worker->slots[i].active)
				slot_start(worker, &random, i);
		int count = worker->active ? rig_wait(worker->queue, dones, DEPTH) : 0;

		for (int i = 0; i < count; i++)
			slot_end(worker, &dones[i]);
	}
	while (worker->active) {
		int count = rig_wait(worker->queue, dones, DEPTH);

		for (int i = 0; i < count; i++)
			slot_end(worker, &dones[i]);
	}
	rig_rest(worker->queue);
	return NULL;
}

static uint64_t live_pages(const struct worker *workers)
{
	uint64_t live = 0;

	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned page = 0; page < PAGES; page++)
			live += workers[i].versions[page] != 0;
	return live;
}

static void random_requests_match_a_reference(unsigned replicas)
{
	static struct worker workers[THREADS];
	struct store_stats stats;
	struct rig rig;
	uint64_t live;

	memset(workers, 0, sizeof workers);
	rig_donors(&rig, 3, "48M");
	rig.config.replicas = replicas;
	rig.config.fabric.depth = 16; /* less than the number of requests at once */
	rig_open(&rig);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].rig = &rig;
		workers[i].seed = 20 + i;
		workers[i].first = i * (uint64_t)PAGES;
		store_queue_open(rig.store, &workers[i].queue);
		pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		ok(!workers[i].failed, "replicas %u, thread %u: no request fails", replicas, i);
		ok(!workers[i].wrong, "replicas %u, thread %u: every read returns the last writes", replicas, i);
	}
	stats = rig_stats(&rig);
	live = live_pages(workers);
	ok(stats.pages_live == live, "the store counts %llu live pages, the reference %llu",
	   (unsigned long long)stats.pages_live, (unsigned long long)live);
	ok(rig_wait_leased(&rig, 2 * PAGES / RIG_SLAB_PAGES * RIG_SLAB * (uint64_t)replicas),
	   "each chunk leases a slab for each replica");
	for (unsigned i = 0; i < 3; i++)
		ok(rig_figures(&rig, i).leased >= 2 * RIG_SLAB, "donor %u has at least two slabs lent", i);
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "discarding the whole store releases all slabs");
	for (unsigned i = 0; i < THREADS; i++)
		store_queue_close(workers[i].queue);
	rig_close(&rig);
}

int main(void)
{
	random_requests_match_a_reference(1);
	random_requests_match_a_reference(2);
	return tap_done();
}
