/* store_faulty: faults at the configured rates, one answer for each request, and no wrong bytes. */
#include "common/random.h"
#include "tests/lib/store_faulty.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define PAGES 256u
#define REQUESTS 20000u
#define DEPTH 16u

struct outcome {
	unsigned good, eio_reads, eio_writes, ebadmsg, late, wrong, order;
	uint64_t digest;
};

static uint8_t reference[PAGES], buffers[DEPTH][STORE_PAGE];

struct pending {
	struct store_io io;
	uint64_t polls;
	bool active;
};

static void finish(struct outcome *outcome, struct pending *pending, const struct store_done *done, uint64_t polls)
{
	const struct store_io *io = &pending->io;
	const uint8_t *data = io->data;

	outcome->digest = outcome->digest * 31 + done->cookie * 7 + (uint64_t)-done->status;
	outcome->late += polls > pending->polls + 1;
	outcome->wrong += !pending->active;
	pending->active = false;
	if (done->status == -EBADMSG)
		outcome->ebadmsg++;
	else if (done->status == -EIO && io->op == STORE_READ)
		outcome->eio_reads++;
	else if (done->status == -EIO)
		outcome->eio_writes++;
	else if (done->status)
		outcome->wrong++;
	else
		outcome->good++;
	if (io->op == STORE_WRITE && done->status == 0)
		reference[io->page] = data[0];
	if (io->op == STORE_READ && done->status == 0)
		outcome->wrong += data[0] != reference[io->page] || data[STORE_PAGE - 1] != reference[io->page];
}

static bool page_is_free(const struct pending *pending, uint64_t page)
{
	for (unsigned i = 0; i < DEPTH; i++)
		if (pending[i].active && pending[i].io.page == page)
			return false;
	return true;
}

static struct outcome run(const struct store_faults *faults)
{
	struct pending pending[DEPTH] = {0};
	struct outcome outcome = {0};
	struct store *memory, *faulty;
	struct store_queue *queue;
	struct store_buffer *registered;
	struct random_state random;
	unsigned done = 0, submitted = 0;
	uint64_t polls = 0;

	memset(reference, 0, sizeof reference);
	random_seed(&random, 1);
	store_open_memory(PAGES, &memory);
	store_open_faulty(memory, faults, &faulty);
	store_queue_open(faulty, &queue);
	store_register(faulty, buffers, sizeof buffers, &registered);
	while (done < REQUESTS) {
		struct store_done dones[4];
		unsigned slot = (unsigned)random_below(&random, DEPTH);
		uint64_t page = random_below(&random, PAGES);

		if (submitted < REQUESTS && !pending[slot].active && page_is_free(pending, page)) {
			pending[slot].io = (struct store_io){.op = random_below(&random, 2) ? STORE_READ : STORE_WRITE,
							     .count = 1,
							     .page = page,
							     .data = buffers[slot],
							     .buffer = registered,
							     .cookie = slot};
			memset(buffers[slot], (int)(1 + random_below(&random, 255)), STORE_PAGE);
			pending[slot].polls = polls;
			pending[slot].active = store_submit(queue, &pending[slot].io, 1) == 1;
			submitted += pending[slot].active;
		}
		int count = store_poll(queue, dones, 4);

		polls++;
		for (int i = 0; i < count; i++, done++)
			finish(&outcome, &pending[dones[i].cookie], &dones[i], polls);
	}
	outcome.order = store_arm(queue) != 0; /* answers were left over */
	store_queue_close(queue);
	store_deregister(faulty, registered);
	store_close(faulty);
	store_close(memory);
	return outcome;
}

/* Compares field by field, because memcmp() would compare the padding. */
static bool same_history(const struct outcome *a, const struct outcome *b)
{
	return a->digest == b->digest && a->good == b->good && a->eio_reads == b->eio_reads &&
	       a->eio_writes == b->eio_writes && a->ebadmsg == b->ebadmsg && a->late == b->late;
}

static bool about(unsigned value, unsigned wanted)
{
	return value > wanted * 8 / 10 && value < wanted * 12 / 10;
}

int main(void)
{
	struct store_faults none = {.seed = 1};
	struct store_faults some = {
	    .seed = 1, .read_error = 6554, .write_error = 3277, .corrupt = 6554, .delay = 13107, .delay_polls = 5};
	struct outcome outcome = run(&none), again;

	ok(outcome.good == REQUESTS && !outcome.wrong && !outcome.late && !outcome.order,
	   "without faults every request succeeds in time and in order");
	outcome = run(&some);
	ok(!outcome.wrong, "with faults each request is answered once, and successful reads are right");
	ok(about(outcome.eio_reads, REQUESTS / 2 / 10), "one read in ten fails with -EIO: %u", outcome.eio_reads);
	ok(about(outcome.eio_writes, REQUESTS / 2 / 20), "one write in twenty fails with -EIO: %u", outcome.eio_writes);
	ok(about(outcome.ebadmsg, REQUESTS / 2 / 10 * 9 / 10), "one read in ten returns -EBADMSG: %u", outcome.ebadmsg);
	ok(about(outcome.late, REQUESTS / 5), "one request in five is late: %u", outcome.late);
	ok(!outcome.order, "with faults the queue has no answers left at the end");
	again = run(&some);
	ok(same_history(&outcome, &again), "the same seed gives the same history of faults");
	some.seed = 2;
	again = run(&some);
	ok(outcome.digest != again.digest, "another seed gives another history of faults");
	return tap_done();
}
