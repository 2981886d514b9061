/* disk: queues of several threads, on regions that meet within pages, and on shared pages. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/disk_load.h"

#include <pthread.h>

#define THREADS 3u
/* Not a multiple of a page, so requests of two threads meet in one page wherever two regions meet. */
#define REGION (9u * STORE_PAGE + 3 * DISK_SECTOR)
#define SHARED (8u * STORE_PAGE)

struct mix {
	const char *name;
	bool shared;
	uint32_t unit, longest, requests, depth, store_depth;
	struct store_faults faults;
};

struct worker {
	pthread_t thread;
	struct disk *disk;
	struct disk_load load;
	bool left;
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	disk_queue_open(worker->disk, LOAD_DEPTH, &worker->load.queue);
	load_run(&worker->load);
	worker->left = disk_arm(worker->load.queue) != 0 || disk_queue_busy(worker->load.queue);
	disk_queue_close(worker->load.queue);
	return NULL;
}

static void start(struct worker *worker, const struct mix *mix, struct disk_over *over, unsigned number)
{
	worker->disk = over->disk;
	worker->load = (struct disk_load){
	    .start = mix->shared ? 0 : number * REGION,
	    .bytes = mix->shared ? SHARED : REGION,
	    .unit = mix->unit,
	    .longest = mix->longest,
	    .requests = mix->requests,
	    .depth = mix->depth,
	    .seed = number + 1,
	    .naps = true,
	    .sharers = mix->shared ? THREADS : 0,
	};
	load_prepare(&worker->load, over->store);
}

static void threads_read_what_some_thread_wrote(const struct mix *mix)
{
	static struct worker workers[THREADS];
	unsigned wrong = 0, torn = 0, strange = 0, failed = 0, slept = 0, left = 0;
	struct disk_over over;
	struct disk_stats stats;
	uint64_t requests = 0;

	disk_over_open(&over, (THREADS * REGION / STORE_PAGE + 1) * STORE_PAGE, &mix->faults, mix->store_depth);
	for (unsigned i = 0; i < THREADS; i++)
		start(&workers[i], mix, &over, i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong += workers[i].load.wrong;
		torn += workers[i].load.torn;
		strange += workers[i].load.strange;
		failed += workers[i].load.failed;
		slept += workers[i].load.slept;
		left += workers[i].left;
		load_finish(&workers[i].load);
	}
	disk_get_stats(over.disk, &stats);
	for (unsigned op = 0; op < DISK_OPS; op++)
		requests += stats.requests[op];
	ok(!wrong && !torn, "%s: reads find what was written (%u wrong, %u torn, %u sleeps)", mix->name, wrong, torn,
	   slept);
	ok(strict_breaches(over.store) == 0, "%s: the disk breaches no duty of store.h", mix->name);
	ok(!strange && (failed > 0) == (mix->faults.read_error > 0),
	   "%s: requests fail only with faults of the store (%u)", mix->name, failed);
	ok(!left && requests == THREADS * mix->requests && disk_locks_are_free(over.disk),
	   "%s: each request is answered, and no page stays locked", mix->name);
	disk_over_close(&over);
}

int main(void)
{
	static const struct store_faults late = {.seed = 3, .delay = 20000, .delay_polls = 7};
	static const struct store_faults bad = {
	    .seed = 4, .read_error = 2000, .write_error = 2000, .corrupt = 2000, .delay = 20000, .delay_polls = 5};
	const struct mix mixes[] = {
	    {"regions", false, DISK_SECTOR, 30, 5000, 8, 256, {0}},
	    {"regions, late", false, DISK_SECTOR, 30, 4000, LOAD_DEPTH, 256, late},
	    {"regions, faults", false, DISK_SECTOR, 30, 4000, LOAD_DEPTH, 4, bad},
	    {"shared", true, STORE_PAGE, 5, 8000, 8, 256, {0}},
	    {"shared, one request each", true, STORE_PAGE, 8, 8000, 1, 1, {0}},
	    {"shared, faults", true, STORE_PAGE, 8, 5000, LOAD_DEPTH, 4, bad},
	    {"shared sectors", true, DISK_SECTOR, 20, 4000, 16, 9, {0}},
	};

	for (unsigned i = 0; i < sizeof mixes / sizeof *mixes; i++)
		threads_read_what_some_thread_wrote(&mixes[i]);
	return tap_done();
}
