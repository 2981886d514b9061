/* disk: which requests wait for others, when they wake up, and which are sent together. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/disk_over.h"

#include <errno.h>

#define PAGES 2048u
#define BYTES ((uint64_t)PAGES * STORE_PAGE)
#define BATCH 64u

static _Alignas(STORE_PAGE) uint8_t buffer[BATCH][STORE_PAGE];
static struct store_buffer *key;
static struct disk_over over;

/* Opens a disk on a store that answers every request @polls polls late. */
static void open_late(unsigned polls)
{
	const struct store_faults faults = {.seed = 1, .delay = polls ? 65535 : 0, .delay_polls = polls};

	disk_over_open(&over, BYTES, &faults, 256);
	store_register(over.store, buffer, sizeof buffer, &key);
}

static void all_queues_close_without_a_breach(void)
{
	ok(strict_breaches(over.store) == 0 && disk_locks_are_free(over.disk),
	   "closed queues breach no duty of store.h and leave no page locked");
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

static void a_request_waits_for_a_locked_page_and_is_woken(void)
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
	ok(disk_poll(one, &done, 1) == 0, "a write is in progress on the first queue");
	disk_submit(two, &waits);
	ok(disk_arm(two) == 1, "disk_arm() asks for a poll if a request is submitted and not started");
	ok(disk_poll(two, &done, 1) == 0 && disk_arm(two) == 0, "a read of a page that another queue writes waits");
	ok(!readable(two, 0) && !readable(two, 1), "a queue with a waiting request sleeps: no descriptor is readable");
	disk_submit(two, &other);
	while (!disk_poll(two, &done, 1))
		polls++;
	ok(done == &other && !done->status && polls < 8, "a read of another page overtakes a waiting read");
	ok(disk_arm(two) == 0 && !readable(two, 1),
	   "a queue sleeps again after a poll that did not start its waiting request");
	while (!disk_poll(one, &done, 1))
		polls++;
	ok(done == &held && readable(two, 1) && !readable(one, 1),
	   "the end of a write wakes the queue that waits, and no other");
	while (!disk_poll(two, &done, 1))
		polls++;
	ok(done == &waits && !done->status && buffer[1][77] == 7,
	   "a read that waited for a write finds what was written");
	ok(disk_arm(two) == 0 && !readable(two, 1), "a poll resets the descriptor that woke the queue");
	disk_get_stats(over.disk, &stats);
	ok(stats.waited == 1, "the statistics count one request that waited");
	disk_queue_close(one);
	disk_queue_close(two);
	all_queues_close_without_a_breach();
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

/* Another queue submits a request for a page while that page is being discarded. */
static void a_request_waits_for_a_discard_and_is_woken(enum disk_op op)
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
	   "a %s of a page that is being discarded sleeps", disk_op_name(op));
	ok(readable(interrupter, 1), "the end of a discard wakes the queue that waits");
	while (!disk_poll(interrupter, &done, 1))
		disk_over_sleep(interrupter);
	ok(done == &interruption && !done->status, "a request that waited for a discard succeeds");
	disk_queue_close(interrupter);
	disk_queue_close(queue);
	all_queues_close_without_a_breach();
}

/* A read of the page is always in progress. A write of the page gets its turn nevertheless. */
static void a_change_of_a_busy_page_gets_its_turn(enum disk_op op)
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
	ok(finished && polls < 40,
	   "a %s of a page that is read all the time gets its turn within 40 polls (%u polls, %u reads)",
	   disk_op_name(op), polls, others);
	while (disk_queue_busy(queue))
		disk_poll(queue, &done, 1);
	disk_queue_close(queue);
	all_queues_close_without_a_breach();
}

static void one_poll_sends_all_submitted_requests(void)
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
	ok(strict->submits == submits && disk_queue_busy(queue) == BATCH,
	   "%u submitted requests are not sent before the next poll", BATCH);
	disk_submit(queue, &flush);
	ok(disk_poll(queue, done, BATCH + 1) == 1 && done[0] == &flush && !flush.status,
	   "a flush does not wait for writes in progress");
	ok(strict->submits == submits + 1, "one poll sends all submitted requests with one store_submit()");
	for (unsigned polls = 0; polls < 8; polls++)
		ordered &= disk_poll(queue, done, 0) == 0;
	ok(ordered && disk_queue_busy(queue) == BATCH && disk_arm(queue) == 1,
	   "disk_arm() asks for a poll while finished requests are not returned");
	for (unsigned i = 0; i < BATCH; i += 8) {
		ordered &= disk_poll(queue, done, 8) == 8;
		for (unsigned j = 0; j < 8; j++)
			ordered &= done[j] == &requests[i + j] && !done[j]->status;
	}
	ok(ordered && !disk_queue_busy(queue) && disk_arm(queue) == 0, "polls for 8 requests return all in order");
	disk_queue_close(queue);
	all_queues_close_without_a_breach();
}

/* Many requests begin and end within pages. The queue has memory for only some of these pages, and the store takes
   only some of the requests. */
static void more_edges_than_edge_pages_are_written(void)
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
	ok(count == BATCH, "%u requests that begin and end within pages are done (%u polls)", BATCH, polls);
	for (unsigned i = 0; i < BATCH; i++) {
		good &= !requests[i].status;
		good &= disk_over_do(queue, DISK_READ, i * 20 * STORE_PAGE, STORE_PAGE, buffer[0], key) == 0;
		good &= buffer[0][DISK_SECTOR - 1] == 0 && buffer[0][DISK_SECTOR] == i + 1;
		good &= disk_over_do(queue, DISK_READ, (i * 20 + 1) * STORE_PAGE, STORE_PAGE, buffer[0], key) == 0;
		good &= buffer[0][DISK_SECTOR - 1] == i + 1 && buffer[0][DISK_SECTOR] == 0;
	}
	ok(good, "requests that begin and end within pages write exactly their sectors");
	disk_queue_close(queue);
	all_queues_close_without_a_breach();
}

/* A page that cannot be read cannot be changed in part. It stays unchanged. */
static void an_unreadable_page_is_not_changed_in_part(void)
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
	ok(disk_over_do(queue, DISK_WRITE, 0, STORE_PAGE, buffer[0], key) == 0,
	   "a write of a whole page succeeds although reads fail");
	other += disk_over_do(queue, DISK_WRITE, 512, 512, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_ZERO, 512, 512, NULL, NULL) != -EIO;
	other += disk_over_do(queue, DISK_WRITE, 512, STORE_PAGE, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_READ, 512, 512, buffer[1], key) != -EIO;
	other += disk_over_do(queue, DISK_READ, 0, STORE_PAGE, buffer[1], key) != -EIO;
	ok(!other, "writes and zeroings of parts of an unreadable page get -EIO");
	ok(store_same(over.store, 0, buffer[0]), "an unreadable page stays unchanged after partial writes");
	ok(disk_over_do(queue, DISK_ZERO, 0, STORE_PAGE, NULL, NULL) == 0,
	   "a zeroing of a whole unreadable page succeeds");
	memset(buffer[0], 0, sizeof buffer[0]);
	ok(store_same(over.store, 0, buffer[0]), "a zeroed page is zero in the store");
	disk_get_stats(over.disk, &stats);
	ok(stats.errors[DISK_WRITE] == 2 && stats.errors[DISK_ZERO] == 1 && stats.errors[DISK_READ] == 2,
	   "the statistics count the failed requests of each operation");
	disk_queue_close(queue);
	all_queues_close_without_a_breach();
}

/* A request with a failed run is done when its other runs in progress are done. It does not wait for locked pages. */
static void a_failed_request_waits_for_no_more_pages(void)
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
	ok(done == &waits && waits.status == -EIO && polls > 0,
	   "a request with a failed run no longer waits for a locked page");
	while (!disk_poll(one, &done, 1))
		polls++;
	ok(done == &held && !held.status && !readable(two, 1),
	   "unlocking a page wakes no queue after its waiting request failed");
	disk_queue_close(one);
	disk_queue_close(two);
	all_queues_close_without_a_breach();
}

int main(void)
{
	a_request_waits_for_a_locked_page_and_is_woken();
	a_request_waits_for_a_discard_and_is_woken(DISK_READ);
	a_request_waits_for_a_discard_and_is_woken(DISK_WRITE);
	a_request_waits_for_a_discard_and_is_woken(DISK_DISCARD);
	a_change_of_a_busy_page_gets_its_turn(DISK_WRITE);
	a_change_of_a_busy_page_gets_its_turn(DISK_DISCARD);
	a_change_of_a_busy_page_gets_its_turn(DISK_ZERO);
	one_poll_sends_all_submitted_requests();
	more_edges_than_edge_pages_are_written();
	an_unreadable_page_is_not_changed_in_part();
	a_failed_request_waits_for_no_more_pages();
	return tap_done();
}
