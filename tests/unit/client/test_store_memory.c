/* store_memory: random requests against a reference, several queues, and the queue descriptor. */
#include "client/store.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <poll.h>

#define PAGES 512u
#define RUN 16u

static uint8_t reference[PAGES][STORE_PAGE], buffer[RUN][STORE_PAGE];
static bool written[PAGES];

static int io_do(struct store_queue *queue, struct store_buffer *registered, enum store_op op, uint64_t page,
		 uint32_t count)
{
	struct store_io io = {
	    .op = op, .count = count, .page = page, .data = buffer, .buffer = registered, .cookie = page + 77};
	struct store_done done;

	if (store_submit(queue, &io, 1) != 1 || store_poll(queue, &done, 1) != 1 || done.cookie != page + 77)
		return -EINVAL;
	return done.status;
}

static void step(struct store *store, struct store_queue *queue, struct store_buffer *registered,
		 struct random_state *random, unsigned *wrong)
{
	uint32_t count = 1 + (uint32_t)random_below(random, RUN);
	uint64_t page = random_below(random, PAGES - count + 1);

	switch (random_below(random, 4)) {
	case 0:
		store_discard(store, page, count);
		memset(reference[page], 0, count * STORE_PAGE);
		memset(written + page, 0, count);
		return;
	case 1:
		for (uint32_t i = 0; i < count; i++)
			memset(buffer[i], (int)random_below(random, 4), STORE_PAGE);
		*wrong += io_do(queue, registered, STORE_WRITE, page, count) != 0;
		memcpy(reference[page], buffer, count * STORE_PAGE);
		memset(written + page, 1, count);
		return;
	default:
		memset(buffer, 0xee, sizeof buffer);
		*wrong += io_do(queue, registered, STORE_READ, page, count) != 0;
		*wrong += memcmp(buffer, reference[page], count * STORE_PAGE) != 0;
		*wrong += !store_same(store, page, reference[page]);
		buffer[0][9] ^= 1;
		*wrong += store_same(store, page, buffer[0]);
		return;
	}
}

static void random_requests_match_a_reference(struct store *store, struct store_buffer *registered)
{
	struct store_queue *queues[2];
	struct random_state random;
	struct store_stats stats;
	unsigned wrong = 0, live = 0;

	random_seed(&random, 1);
	store_queue_open(store, &queues[0]);
	store_queue_open(store, &queues[1]);
	for (unsigned i = 0; i < 20000; i++)
		step(store, queues[i % 2], registered, &random, &wrong);
	for (unsigned i = 0; i < PAGES; i++)
		live += written[i];
	store_stats(store, &stats);
	ok(!wrong, "20000 random requests on two queues match a reference");
	ok(stats.pages_live == live, "store_stats() counts the live pages");
	store_queue_close(queues[0]);
	store_queue_close(queues[1]);
	store_queue_close(NULL);
}

static bool readable(const struct store_queue *queue)
{
	struct pollfd fd = {.fd = store_queue_fd(queue), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void queue_descriptor_is_readable_while_answers_wait(struct store *store, struct store_buffer *registered)
{
	struct store_io io = {.op = STORE_READ, .count = 1, .data = buffer, .buffer = registered};
	struct store_done dones[64];
	struct store_queue *queue;
	unsigned taken = 0, done = 0;
	bool ordered = true;

	store_queue_open(store, &queue);
	ok(store_poll(queue, dones, 64) == 0 && store_arm(queue) == 0 && !readable(queue),
	   "an empty queue can be armed and is not readable");
	ok(store_submit(queue, &io, 1) == 1 && readable(queue), "a submitted request makes the queue readable");
	ok(store_arm(queue) == 1, "a queue with an answer to poll is not armed");
	ok(store_poll(queue, dones, 64) == 1 && !readable(queue),
	   "a queue whose answers were all polled is not readable");
	while (store_submit(queue, &io, 1) == 1)
		io.cookie = ++taken;
	ok(taken > 0 && taken < 100000, "a queue accepts %u requests before it is full", taken);
	for (int count; (count = store_poll(queue, dones, 64)) > 0; done += (unsigned)count)
		for (int i = 0; i < count; i++)
			ordered &= dones[i].cookie == done + (unsigned)i;
	ok(done == taken && ordered, "each accepted request is answered once and in order");
	store_queue_close(queue);
}

int main(void)
{
	struct store_buffer *registered;
	struct store *store;

	ok(store_open_memory(0, &store) == -EINVAL, "a store without pages is refused with -EINVAL");
	ok(store_open_memory(PAGES, &store) == 0 && store->pages == PAGES,
	   "store_open_memory() opens a store with the given pages");
	ok(store_register(store, buffer, sizeof buffer, &registered) == 0, "store_register() registers a buffer");
	random_requests_match_a_reference(store, registered);
	queue_descriptor_is_readable_while_answers_wait(store, registered);
	store_deregister(store, registered);
	store_close(store);
	store_close(NULL);
	return tap_done();
}
