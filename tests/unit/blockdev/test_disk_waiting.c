/* disk: who waits for whom, who is woken, and what is sent at once. */
#include "tests/tap.h"
#include "tests/unit/blockdev/disk_over.h"

#include <errno.h>

#define PAGES 2048u
#define BYTES ((uint64_t)PAGES * STORE_PAGE)
#define BATCH 64u

static _Alignas(STORE_PAGE) uint8_t buffer[BATCH][STORE_PAGE];
static struct store_buffer *key;
static struct disk_over over;

/* Everything is answered @polls polls late. */
static void open_late(unsigned polls)
{
	const struct store_faults faults = {.seed = 1, .delay = polls ? 65535 : 0, .delay_polls = polls};

	disk_over_open(&over, BYTES, &faults, 256);
	store_register(over.store, buffer, sizeof buffer, &key);
}

static void close_all(void)
{
	ok(strict_breaches(over.store) == 0 && disk_locks_are_free(over.disk), "and no breach, no page locked");
	store_deregister(over.store, key);
	disk_over_close(&over);
}

static struct disk_request at(enum disk_op op, uint64_t page, unsigned number)
{
	return (struct disk_request){
	    .op = op, .offset = page * STORE_PAGE, .length = STORE_PAGE, .data = buffer[number], .buffer = key};
}

static bool readable(const struct disk_queue *queue, unsigned which)
{
	int fds[2];
	struct pollfd fd;

	disk_queue_fds(queue, fds);
	fd = (struct pollfd){.fd = fds[which], .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

static void test_woken(void)
{
	struct disk_queue *one, *two;
	struct disk_request held, waits, other, *done = NULL;
	struct disk_stats stats;
	unsigned polls = 0;

	open_late(5);
	disk_queue_open(over.disk, 4, &one);
	disk_queue_open(over.disk, 4, &two);
	held = at(DISK_WRITE, 5, 0);
	waits = at(DISK_READ, 5, 1);
	other = at(DISK_READ, 1000, 2);
	memset(buffer[0], 7, STORE_PAGE);
	disk_submit(one, &held);
	ok(disk_poll(one, &done, 1) == 0, "a write is under way");
	disk_submit(two, &waits);
	ok(disk_arm(two) == 1, "a request that was not looked at: poll");
	ok(disk_poll(two, &done, 1) == 0 && disk_arm(two) == 0, "another queue's read of its page has to wait");
	ok(!readable(two, 0) && !readable(two, 1), "and sleeps");
	disk_submit(two, &other);
	while (!disk_poll(two, &done, 1))
		polls++;
	ok(done == &other && !done->status && polls < 8, "a read of another page does not");
	ok(disk_arm(two) == 0 && !readable(two, 1), "it sleeps again");
	while (!disk_poll(one, &done, 1))
		polls++;
	ok(done == &held && readable(two, 1) && !readable(one, 1), "the write is done, and wakes who waits");
	while (!disk_poll(two, &done, 1))
		polls++;
	ok(done == &waits && !done->status && buffer[1][77] == 7, "which reads what was written");
	ok(disk_arm(two) == 0 && !readable(two, 1), "nothing is left in the descriptor");
	disk_get_stats(over.disk, &stats);
	ok(stats.waited == 1, "one has waited");
	disk_queue_close(one);
	disk_queue_close(two);
	close_all();
}

static struct disk_queue *interrupter;
static struct disk_request interruption;
static bool interrupted;

static void interrupt(void)
{
	struct disk_request *done;

	disk_submit(interrupter, &interruption);
	interrupted = disk_poll(interrupter, &done, 1) == 0 && disk_arm(interrupter) == 0 && !readable(interrupter, 1);
	((struct strict_store *)over.store)->discarding = NULL;
}

/* Another queue wants a page while it is being discarded. */
static void test_woken_by_discard(enum disk_op op)
{
	struct disk_request discard, *done = NULL;
	struct disk_queue *queue;

	open_late(0);
	disk_queue_open(over.disk, 4, &queue);
	disk_queue_open(over.disk, 4, &interrupter);
	((struct strict_store *)over.store)->discarding = interrupt;
	interruption = at(op, 7, 0);
	discard = at(DISK_DISCARD, 5, 0);
	discard.length = 9 * STORE_PAGE;
	disk_submit(queue, &discard);
	ok(disk_poll(queue, &done, 1) == 1 && done == &discard && interrupted,
	   "%s of a page that is being discarded: it sleeps", disk_op_name(op));
	ok(readable(interrupter, 1), "and is woken");
	while (!disk_poll(interrupter, &done, 1))
		disk_over_sleep(interrupter);
	ok(done == &interruption && !done->status, "and done");
	disk_queue_close(interrupter);
	disk_queue_close(queue);
	close_all();
}

/* There is always a read of the page under way; a write of it gets its turn. */
static void test_not_overtaken(enum disk_op op)
{
	struct disk_request reads[4], write, *done;
	struct disk_queue *queue;
	unsigned polls = 0, others = 0;
	bool finished = false;

	open_late(6);
	disk_queue_open(over.disk, 8, &queue);
	for (unsigned i = 0; i < 4; i++) {
		reads[i] = at(DISK_READ, 9, i);
		disk_submit(queue, &reads[i]);
		disk_poll(queue, &done, 1);
	}
	write = at(op, 9, 5);
	disk_submit(queue, &write);
	for (; !finished && polls < 1000; polls++) {
		if (!disk_poll(queue, &done, 1))
			continue;
		finished = done == &write;
		others++;
		if (!finished)
			disk_submit(queue, done);
	}
	ok(finished && polls < 40, "%s: a page that is read all the time: its turn came after %u polls, %u reads",
	   disk_op_name(op), polls, others);
	while (disk_queue_busy(queue))
		disk_poll(queue, &done, 1);
	disk_queue_close(queue);
	close_all();
}

static void test_together(void)
{
	const struct strict_store *strict;
	struct disk_request requests[BATCH], flush = {.op = DISK_FLUSH}, *done[BATCH + 1];
	struct disk_queue *queue;
	bool ordered = true;
	uint64_t submits;

	open_late(3);
	strict = (const struct strict_store *)over.store;
	disk_queue_open(over.disk, BATCH + 1, &queue);
	submits = strict->submits;
	for (unsigned i = 0; i < BATCH; i++) {
		requests[i] = at(i % 2 ? DISK_WRITE : DISK_READ, i * 3, i);
		disk_submit(queue, &requests[i]);
	}
	ok(strict->submits == submits && disk_queue_busy(queue) == BATCH, "%u requests are submitted: not sent yet",
	   BATCH);
	disk_submit(queue, &flush);
	ok(disk_poll(queue, done, BATCH + 1) == 1 && done[0] == &flush && !flush.status,
	   "a flush does not wait for writes that are under way");
	ok(strict->submits == submits + 1, "all were sent with one call");
	for (unsigned polls = 0; polls < 8; polls++)
		ordered &= disk_poll(queue, done, 0) == 0;
	ok(ordered && disk_queue_busy(queue) == BATCH && disk_arm(queue) == 1, "done and not asked for: poll");
	for (unsigned i = 0; i < BATCH; i += 8) {
		ordered &= disk_poll(queue, done, 8) == 8;
		for (unsigned j = 0; j < 8; j++)
			ordered &= done[j] == &requests[i + j] && !done[j]->status;
	}
	ok(ordered && !disk_queue_busy(queue) && disk_arm(queue) == 0, "given back eight at a time, in order");
	disk_queue_close(queue);
	close_all();
}

/* More at once than the queue has pages of its own for their ends, and than the store takes. */
static void test_many_edges(void)
{
	struct disk_request requests[BATCH], *done[BATCH];
	struct disk_queue *queue;
	unsigned count = 0, polls = 0;
	bool good = true;

	disk_over_open(&over, BYTES, NULL, 3);
	store_register(over.store, buffer, sizeof buffer, &key);
	disk_queue_open(over.disk, BATCH, &queue);
	for (unsigned i = 0; i < BATCH; i++) {
		memset(buffer[i], (int)i + 1, STORE_PAGE);
		requests[i] = at(DISK_WRITE, i * 20, i);
		requests[i].offset += DISK_SECTOR;
		disk_submit(queue, &requests[i]);
	}
	for (; count < BATCH && polls < 1000; polls++)
		count += disk_poll(queue, done + count, BATCH - count);
	ok(count == BATCH, "%u requests with two ends each: done in %u polls", BATCH, polls);
	for (unsigned i = 0; i < BATCH; i++) {
		good &= !requests[i].status;
		good &= disk_over_do(queue, DISK_READ, i * 20 * STORE_PAGE, STORE_PAGE, buffer[0], key) == 0;
		good &= buffer[0][DISK_SECTOR - 1] == 0 && buffer[0][DISK_SECTOR] == i + 1;
		good &= disk_over_do(queue, DISK_READ, (i * 20 + 1) * STORE_PAGE, STORE_PAGE, buffer[0], key) == 0;
		good &= buffer[0][DISK_SECTOR - 1] == i + 1 && buffer[0][DISK_SECTOR] == 0;
	}
	ok(good, "and each wrote its sectors");
	disk_queue_close(queue);
	close_all();
}

/* What cannot be read cannot be changed in part, and stays. */
static void test_failed_edge(void)
{
	const struct store_faults faults = {.seed = 1, .read_error = 65535};
	struct disk_queue *queue;
	struct disk_stats stats;
	unsigned other = 0;

	disk_over_open(&over, BYTES, &faults, 256);
	store_register(over.store, buffer, sizeof buffer, &key);
	disk_queue_open(over.disk, 2, &queue);
	memset(buffer[0], 1, sizeof buffer[0]);
	memset(buffer[1], 2, sizeof buffer[1]);
	ok(disk_over_do(queue, DISK_WRITE, 0, STORE_PAGE, buffer[0], key) == 0, "a whole page is written unread");
	other += disk_over_do(queue, DISK_WRITE, 512, 512, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_ZERO, 512, 512, NULL, NULL) != -EIO;
	other += disk_over_do(queue, DISK_WRITE, 512, STORE_PAGE, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_READ, 512, 512, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_READ, 0, STORE_PAGE, buffer[1], key) != -EIO;
	ok(!other, "parts of it are not, where it cannot be read: -EIO");
	ok(store_same(over.store, 0, buffer[0]), "it stays what it was");
	ok(disk_over_do(queue, DISK_ZERO, 0, STORE_PAGE, NULL, NULL) == 0, "a whole page is zeroed all the same");
	memset(buffer[0], 0, sizeof buffer[0]);
	ok(store_same(over.store, 0, buffer[0]), "and is zero");
	disk_get_stats(over.disk, &stats);
	ok(stats.errors[DISK_WRITE] == 2 && stats.errors[DISK_ZERO] == 1 && stats.errors[DISK_READ] == 2, "counted");
	disk_queue_close(queue);
	close_all();
}

/* A request of which a run has failed is over when the others under way are: it does not wait for more. */
static void test_failed_waiting(void)
{
	const struct store_faults faults = {.seed = 1, .read_error = 65535, .delay = 65535, .delay_polls = 5};
	struct disk_request held = {.op = DISK_WRITE}, waits, *done = NULL;
	struct disk_queue *one, *two;
	unsigned polls = 0;

	disk_over_open(&over, BYTES, &faults, 256);
	store_register(over.store, buffer, sizeof buffer, &key);
	disk_queue_open(over.disk, 2, &one);
	disk_queue_open(over.disk, 2, &two);
	held = at(DISK_WRITE, 10, 0);
	disk_submit(one, &held);
	disk_poll(one, &done, 1);
	waits = at(DISK_READ, 9, 1);
	waits.offset += DISK_SECTOR;
	waits.length = 3 * STORE_PAGE;
	disk_submit(two, &waits);
	while (!disk_poll(two, &done, 1) && polls < 100)
		polls++;
	ok(done == &waits && waits.status == -EIO && polls > 0, "a part has failed: it no longer waits for a page");
	while (!disk_poll(one, &done, 1))
		polls++;
	ok(done == &held && !held.status && !readable(two, 1), "nor does anybody, when that is unlocked");
	disk_queue_close(one);
	disk_queue_close(two);
	close_all();
}

int main(void)
{
	test_woken();
	test_woken_by_discard(DISK_READ);
	test_woken_by_discard(DISK_WRITE);
	test_woken_by_discard(DISK_DISCARD);
	test_not_overtaken(DISK_WRITE);
	test_not_overtaken(DISK_DISCARD);
	test_not_overtaken(DISK_ZERO);
	test_together();
	test_many_edges();
	test_failed_edge();
	test_failed_waiting();
	return tap_done();
}
