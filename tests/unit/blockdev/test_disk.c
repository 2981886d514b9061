/* disk: one request at a time. Every operation on every range of sectors within three pages, invalid requests, long
   requests, the discard of a whole TiB, and the statistics. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/disk_over.h"

#include <errno.h>

#define PAGES 4u
#define SECTORS (3u * STORE_PAGE / DISK_SECTOR)
#define BYTES ((uint64_t)PAGES * STORE_PAGE)
#define LONG_PAGES (3u * STORE_RUN_MAX + 5)
#define LONG_BYTES ((uint64_t)LONG_PAGES * STORE_PAGE)
#define TIB (UINT64_C(1) << 40)

static _Alignas(STORE_PAGE) uint8_t buffer[LONG_BYTES + STORE_PAGE], back[LONG_BYTES + STORE_PAGE];
static struct store_buffer *buffer_key, *back_key;
static struct random_state random_state;

static void over_open(struct disk_over *over, uint64_t bytes, struct disk_queue **ret_queue)
{
	ok(disk_over_open(over, bytes, NULL, 2) == 0, "a disk of %llu bytes opens", (unsigned long long)bytes);
	store_register(over->store, buffer, sizeof buffer, &buffer_key);
	store_register(over->store, back, sizeof back, &back_key);
	ok(disk_queue_open(over->disk, 8, ret_queue) == 0, "a queue of the disk opens");
}

static void over_close(struct disk_over *over, struct disk_queue *queue)
{
	store_deregister(over->store, buffer_key);
	store_deregister(over->store, back_key);
	ok(strict_breaches(over->store) == 0 && disk_locks_are_free(over->disk),
	   "the disk breaches no duty of store.h and leaves no page locked");
	disk_queue_close(queue);
	disk_over_close(over);
}

static bool holds(const struct disk_over *over, struct disk_queue *queue)
{
	memset(back, 0xee, over->bytes);
	return disk_over_do(queue, DISK_READ, 0, over->bytes, back, back_key) == 0 &&
	       !memcmp(back, over->reference, over->bytes);
}

/* Performs one operation on one range. Bit N of @written is 1 if page N was written before. Returns true if the
   operation does its work and changes nothing around the range. */
static bool range_is_right(struct disk_over *over, struct disk_queue *queue, enum disk_op op, uint64_t offset,
			   uint64_t length, unsigned written)
{
	bool good;

	store_discard(over->store, 0, PAGES);
	memset(over->reference, 0, BYTES);
	for (uint64_t page = 0; page < PAGES; page++) {
		if (!(written >> page & 1))
			continue;
		disk_over_fill(buffer, STORE_PAGE, &random_state);
		if (disk_over_do(queue, DISK_WRITE, page * STORE_PAGE, STORE_PAGE, buffer, buffer_key))
			return false;
		memcpy(over->reference + page * STORE_PAGE, buffer, STORE_PAGE);
	}
	disk_over_fill(buffer, length + 8, &random_state);
	memcpy(back, buffer, length + 8);
	good = disk_over_do(queue, op, offset, length, buffer, buffer_key) == 0;
	if (op == DISK_READ)
		return good && !memcmp(buffer, over->reference + offset, length) &&
		       !memcmp(buffer + length, back + length, 8);
	disk_over_apply(over, op, offset, length, buffer);
	return good && !memcmp(buffer, back, length) && holds(over, queue);
}

static void each_operation_works_on_every_range_of_sectors(void)
{
	struct disk_over over;
	struct disk_queue *queue;

	over_open(&over, BYTES, &queue);
	for (enum disk_op op = DISK_READ; op <= DISK_ZERO; op++) {
		unsigned ranges = 0, wrong = 0;

		for (uint64_t place = 0; place <= STORE_PAGE; place += STORE_PAGE) {
			for (uint64_t first = 0; first < SECTORS; first++) {
				for (uint64_t end = first + 1; end <= SECTORS; end++, ranges++)
					wrong += !range_is_right(&over, queue, op, place + first * DISK_SECTOR,
								 (end - first) * DISK_SECTOR, ranges % 16);
			}
		}
		ok(!wrong && ranges == SECTORS * (SECTORS + 1),
		   "%s works on all %u ranges of sectors in 3 pages (%u wrong)", disk_op_name(op), ranges, wrong);
	}
	over_close(&over, queue);
}

static void invalid_requests_are_refused_and_counted(void)
{
	static const struct {
		uint64_t offset, length;
	} bad[] = {{BYTES, 512},
		   {BYTES, 0},
		   {0, 0},
		   {512, 0},
		   {BYTES - 512, 1024},
		   {0, BYTES + 512},
		   {BYTES + 512, 512},
		   {UINT64_MAX - 511, 512},
		   {UINT64_MAX - 511, 1024},
		   {512, UINT64_MAX - 511},
		   {0, UINT64_MAX - 511},
		   {1, 512},
		   {0, 511},
		   {0, 513},
		   {256, 256}};
	struct disk_over over;
	struct disk_queue *queue;
	struct disk_stats stats;
	unsigned taken = 0;

	over_open(&over, BYTES, &queue);
	disk_over_fill(over.reference, BYTES, &random_state);
	memcpy(buffer, over.reference, BYTES);
	ok(disk_over_do(queue, DISK_WRITE, 0, BYTES, buffer, buffer_key) == 0, "one write fills the whole disk");
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		for (enum disk_op op = DISK_READ; op <= DISK_ZERO; op++)
			taken += disk_over_do(queue, op, bad[i].offset, bad[i].length, buffer, buffer_key) != -EINVAL;
	ok(!taken, "a range that is empty, outside the disk or not whole sectors gets -EINVAL");
	ok(disk_over_do(queue, DISK_OPS, 0, 512, buffer, buffer_key) == -EINVAL, "an unknown operation gets -EINVAL");
	ok(disk_over_do(queue, DISK_FLUSH, 77, UINT64_MAX, NULL, NULL) == 0, "a flush ignores offset and length");
	ok(holds(&over, queue), "refused requests leave the disk unchanged");
	disk_get_stats(over.disk, &stats);
	ok(stats.requests[DISK_WRITE] == 1 + sizeof bad / sizeof *bad &&
	       stats.errors[DISK_WRITE] == sizeof bad / sizeof *bad && stats.bytes[DISK_WRITE] == BYTES,
	   "the statistics count writes, their errors and their bytes");
	ok(stats.requests[DISK_FLUSH] == 1 && !stats.errors[DISK_FLUSH] && !stats.bytes[DISK_FLUSH],
	   "the statistics count the flush, without errors or bytes");
	ok(!stats.waited, "no request of a single queue waits for a page");
	disk_queue_close(queue);
	disk_queue_open(over.disk, 1, &queue);
	disk_over_do(queue, DISK_READ, 0, 512, buffer, buffer_key);
	disk_get_stats(over.disk, &stats);
	ok(stats.requests[DISK_WRITE] == 1 + sizeof bad / sizeof *bad && stats.bytes[DISK_READ] == BYTES + 512,
	   "the statistics keep the figures of closed queues");
	over_close(&over, queue);
}

static void a_disk_opens_within_its_store_and_has_64_queues(void)
{
	struct disk_queue *queues[80];
	struct disk_over over;
	struct disk *disk;
	unsigned count = 0;
	int error = 0;

	disk_over_open(&over, BYTES, NULL, 1);
	ok(disk_open(over.store, 0, &disk) == -EINVAL, "opening a disk of 0 bytes gives -EINVAL");
	ok(disk_open(over.store, 512, &disk) == -EINVAL, "opening a disk of a part of a page gives -EINVAL");
	ok(disk_open(over.store, BYTES + STORE_PAGE, &disk) == -EINVAL,
	   "opening a disk larger than its store gives -EINVAL");
	ok(disk_bytes(over.disk) == BYTES && disk_store(over.disk) == over.store,
	   "a disk returns the size and store that it was opened with");
	while (count < 80 && (error = disk_queue_open(over.disk, 1, &queues[count])) == 0)
		count++;
	ok(count == 64 && error == -EBUSY, "a disk opens 64 queues, and the next gets -EBUSY");
	disk_queue_close(queues[7]);
	ok(disk_queue_open(over.disk, 1, &queues[7]) == 0, "closing one of 64 queues makes room for another");
	while (count)
		disk_queue_close(queues[--count]);
	disk_queue_close(NULL);
	disk_close(NULL);
	disk_over_close(&over);
}

/* Requests of several runs, which begin and end at sectors or at pages. */
static void requests_of_several_runs_are_right(void)
{
	struct disk_over over;
	struct disk_queue *queue;
	unsigned wrong = 0;

	over_open(&over, LONG_BYTES, &queue);
	for (unsigned i = 0; i < 60; i++) {
		enum disk_op op = i % 3 == 2 ? DISK_ZERO : DISK_WRITE;
		uint64_t offset = random_below(&random_state, 2 * STORE_PAGE / DISK_SECTOR) * DISK_SECTOR;
		uint64_t length = LONG_BYTES - offset - random_below(&random_state, 1000) * DISK_SECTOR;

		disk_over_fill(buffer, LONG_BYTES, &random_state);
		wrong += disk_over_do(queue, op, offset, length, buffer, buffer_key) != 0;
		disk_over_apply(&over, op, offset, length, buffer);
		wrong += !holds(&over, queue);
		memset(back, 0, sizeof back);
		wrong += disk_over_do(queue, DISK_READ, offset, length, back, back_key) != 0;
		wrong += memcmp(back, over.reference + offset, length) != 0;
	}
	ok(!wrong, "reads, writes and zeroings of more than three runs at odd sectors are right");
	over_close(&over, queue);
}

/* Counts the polls that the discard of a whole TiB takes, and the other requests that are done meanwhile. */
static void other_requests_proceed_while_a_tebibyte_is_discarded(void)
{
	struct disk_request all = {.op = DISK_DISCARD, .length = TIB}, one, *done;
	struct store *store = NULL;
	struct disk *disk = NULL;
	struct disk_queue *queue;
	unsigned polls = 0, others = 0, wrong = 0, slow = 0;
	struct store_stats stats;

	ok(store_open_memory(TIB / STORE_PAGE, &store) == 0 && disk_open(store, TIB, &disk) == 0,
	   "a disk of a TiB opens");
	store_register(store, buffer, sizeof buffer, &buffer_key);
	disk_queue_open(disk, 4, &queue);
	memset(buffer, 1, STORE_PAGE);
	for (uint64_t i = 0; i < 64; i++)
		wrong += disk_over_do(queue, DISK_WRITE, i * (TIB / 64) + i * STORE_PAGE, STORE_PAGE, buffer,
				      buffer_key) != 0;
	disk_submit(queue, &all);
	for (bool finished = false; !finished; polls++) {
		/* One more request is always in progress. The first poll, or the next one, must complete it. */
		one = (struct disk_request){.op = polls % 2 ? DISK_READ : DISK_DISCARD,
					    .offset = (uint64_t)polls * STORE_PAGE,
					    .length = STORE_PAGE,
					    .data = buffer,
					    .buffer = buffer_key};
		disk_submit(queue, &one);
		for (unsigned tries = 0; disk_queue_busy(queue) > !finished && tries < 4; tries++) {
			wrong += !finished && disk_arm(queue) != 1;
			while (disk_poll(queue, &done, 1)) {
				wrong += done->status != 0;
				others += done == &one;
				finished |= done == &all;
			}
			slow += tries > 1;
		}
	}
	ok(!wrong, "a discard of a TiB succeeds, and disk_arm() asks for polls until its end");
	ok(others == polls && !slow, "all %u other requests are done promptly during a discard of a TiB", others);
	ok(polls >= 4096 && polls <= 32768, "a discard of a TiB takes 4096 to 32768 polls (%u)", polls);
	store_stats(store, &stats);
	ok(stats.pages_live == 0, "a discard of the whole disk releases every page");
	store_deregister(store, buffer_key);
	disk_queue_close(queue);
	disk_close(disk);
	store_close(store);
}

int main(void)
{
	random_seed(&random_state, 1);
	a_disk_opens_within_its_store_and_has_64_queues();
	each_operation_works_on_every_range_of_sectors();
	invalid_requests_are_refused_and_counted();
	requests_of_several_runs_are_right();
	other_requests_proceed_while_a_tebibyte_is_discarded();
	return tap_done();
}
