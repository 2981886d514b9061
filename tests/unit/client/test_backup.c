/*
 * backup: which copies go to the disk, in which order, and which are read back. The disk of the test is slow, full,
 * or completes in any order. The backup never writes a page twice at once. It answers a write only when the disk
 * has it, and its memory is bounded.
 */
#include "client/backup/backup.h"
#include "client/io/far_backup.h"
#include "client/rebuild/rebuild.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 8192u
#define CHUNK_PAGES 256u
#define MS UINT64_C(1000000)

/* --- The disk ----------------------------------------------------------------------------------------------------- */

struct op {
	uint64_t cookie, page;
	struct iovec pieces[DISK_PIECES];
	unsigned count;
	void *into; /* the buffer of a read; NULL for a write */
	uint32_t pages;
	bool active;
};

static struct backup_disk {
	uint64_t first[PAGES]; /* the first word of each page */
	struct op ops[DISK_DEPTH];
	unsigned active, active_most, writes, reads, overlaps;
	bool held;        /* no operation completes */
	bool held_writes; /* only reads complete */
	int error;        /* errno of all writes, or 0 if they succeed */
	bool open;
} disk;

int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk)
{
	(void)path, (void)bytes, (void)keep, (void)adopt;
	memset(&disk, 0, sizeof disk);
	disk.open = pages == PAGES;
	*ret_disk = &disk;
	return 0;
}

void backup_disk_close(struct backup_disk *closed, bool keep)
{
	(void)keep;
	if (closed)
		closed->open = false;
}

int backup_disk_fd(const struct backup_disk *asked)
{
	(void)asked;
	return -1;
}

static bool op_writes(const struct op *op, uint64_t page)
{
	return op->active && !op->into && page >= op->page && page < op->page + op->count;
}

static struct op *op_new(uint64_t page, uint64_t cookie)
{
	for (unsigned i = 0; i < DISK_DEPTH; i++) {
		if (disk.ops[i].active)
			continue;
		if (++disk.active > disk.active_most)
			disk.active_most = disk.active;
		disk.ops[i] = (struct op){.cookie = cookie, .page = page, .active = true};
		return &disk.ops[i];
	}
	printf("Bail out! more in flight than the disk takes\n");
	exit(EXIT_FAILURE);
}

void backup_disk_write(struct backup_disk *to, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie)
{
	struct op *op;

	for (unsigned i = 0; i < DISK_DEPTH; i++)
		for (unsigned j = 0; j < count; j++)
			to->overlaps += op_writes(&to->ops[i], page + j);
	op = op_new(page, cookie);
	memcpy(op->pieces, pieces, count * sizeof *pieces);
	op->count = count;
	to->writes++;
}

void backup_disk_read(struct backup_disk *from, uint64_t page, void *data, uint32_t pages, uint64_t cookie)
{
	struct op *op = op_new(page, cookie);

	op->into = data;
	op->pages = pages;
	from->reads++;
}

int backup_disk_submit(struct backup_disk *to)
{
	(void)to;
	return 0;
}

static void page_fill(void *data, uint64_t word)
{
	for (unsigned i = 0; i < STORE_PAGE / 8; i++)
		((uint64_t *)data)[i] = word;
}

static int64_t op_end(struct op *op)
{
	op->active = false;
	disk.active--;
	for (unsigned i = 0; i < op->pages; i++)
		page_fill((uint8_t *)op->into + (size_t)i * STORE_PAGE, disk.first[op->page + i]);
	if (op->into)
		return (int64_t)op->pages * STORE_PAGE;
	if (disk.error)
		return -disk.error;
	for (unsigned i = 0; i < op->count; i++)
		disk.first[op->page + i] = *(const uint64_t *)op->pieces[i].iov_base;
	return (int64_t)op->count * STORE_PAGE;
}

/* Completes the newest operations first. */
unsigned backup_disk_reap(struct backup_disk *from, struct backup_disk_done *dones, unsigned max)
{
	unsigned count = 0;

	for (unsigned i = DISK_DEPTH; i-- > 0 && count < max && !from->held;) {
		struct op *op = &from->ops[i];

		if (!op->active || (from->held_writes && !op->into))
			continue;
		dones[count++] = (struct backup_disk_done){.cookie = op->cookie, .result = op_end(op)};
	}
	return count;
}

/* --- The rest of a store ------------------------------------------------------------------------------------------ */

static struct far far;
static struct rebuild rebuild;
static struct far_queue queue;
static struct backup *backup;
static uint64_t now = 1000 * MS;
static _Alignas(64) uint8_t data[64 * STORE_PAGE];
static int log_fd;

/* @bytes limits the memory for copies that are not on the disk yet. */
static void world_open_within(uint64_t bytes)
{
	memset(&far, 0, sizeof far);
	integrity_open(&far.integrity, PAGES);
	chunk_table_open(&far.table, PAGES, CHUNK_PAGES, 1);
	far.integrity.keeps = true;
	far.config.replicas = 1;
	far.config.backup_bytes = bytes;
	far.rebuild = &rebuild;
	far.backup_path = (char[]){"disk"};
	pthread_mutex_init(&far.lock, NULL);
	mailbox_open(&far.mailbox);
	queue = (struct far_queue){.far = &far, .wake = eventfd(0, EFD_NONBLOCK)};
	if (ftruncate(log_fd, 0) < 0 || lseek(log_fd, 0, SEEK_SET) < 0 || backup_open(&far, &backup) < 0)
		exit(EXIT_FAILURE);
	far.backup = backup;
}

static void world_open(void)
{
	world_open_within(0);
}

static void world_close(void)
{
	backup_close(backup, false);
	integrity_close(&far.integrity);
	chunk_table_close(&far.table);
	mailbox_close(&far.mailbox);
	close(queue.wake);
	ok(!disk.overlaps && !disk.open, "no page is ever written twice at once, and the disk is closed");
}

static unsigned told(const char *text)
{
	static char log[1 << 16];
	ssize_t length = pread(log_fd, log, sizeof log - 1, 0);
	unsigned count = 0;

	log[length > 0 ? length : 0] = '\0';
	for (const char *at = log; (at = strstr(at, text)); at++)
		count++;
	return count;
}

/* Writes and commits the page, and hands a copy to the backup. Returns false if the backup has no room. */
static bool put(uint64_t page, uint64_t word)
{
	page_fill(data, word);
	integrity_prepare(&far.integrity, page, data);
	integrity_commit(&far.integrity, page, 1);
	backup_put(backup, page, 1, data);
	return !backup_ring_is_missed(&backup->ring, page);
}

/* Lets the backup work for 100 ms, longer than its pauses, until it has no work left. */
static void steps(void)
{
	for (unsigned i = 0; i < 100; i++) {
		backup_step(backup, now);
		now += MS;
	}
}

/* Reads kept pages. Returns the status, or 1 if there is no answer yet. */
static struct backup_io asked;

static void take_answer(struct backup_io *io)
{
	atomic_store(&io->queue->backup_answers, io);
}

static int read_outcome(void)
{
	return atomic_exchange(&queue.backup_answers, NULL) == &asked ? asked.status : 1;
}

static int read_pages(uint64_t page, uint32_t count)
{
	memset(data, 0, sizeof data);
	asked = (struct backup_io){
	    .answer = take_answer, .queue = &queue, .page = page, .count = count, .data = data, .kept = true};
	backup_ask(backup, &asked);
	backup_step(backup, now);
	backup_step(backup, now);
	return read_outcome();
}

static uint64_t word_of(unsigned page)
{
	return *(const uint64_t *)(data + (size_t)page * STORE_PAGE);
}

/* --- The tests ---------------------------------------------------------------------------------------------------- */

static void batches_keep_the_order_of_writes(void)
{
	world_open();
	for (unsigned i = 0; i < 8; i++)
		put(7 - i, 100 + i);
	put(3, 200);
	steps();
	ok(disk.writes == 1 && disk.first[0] == 107 && disk.first[7] == 100, "neighbouring pages are written together");
	ok(disk.first[3] == 200, "the newer of two copies of a page is written");
	disk.held = true;
	put(5, 300);
	steps();
	put(5, 301);
	put(6, 302);
	steps();
	ok(disk.active == 1 && backup_behind(backup) == 3, "a batch with a page under way waits for the earlier batch");
	disk.held = false;
	steps();
	ok(disk.first[5] == 301 && disk.first[6] == 302 && !backup_behind(backup),
	   "a waiting batch is written after the earlier batch");
	for (unsigned i = 0; i < 1500; i++)
		put(i * 5 + 1, 1000 + i);
	steps();
	unsigned wrong = 0;
	for (unsigned i = 0; i < 1500; i++)
		wrong += disk.first[i * 5 + 1] != 1000 + i;
	ok(!wrong && disk.active_most <= DISK_DEPTH && !backup_behind(backup),
	   "scattered pages all reach the disk, at most %u at a time", disk.active_most);
	world_close();
}

static void reads_combine_the_disk_and_copies_under_way(void)
{
	world_open();
	put(10, 1);
	put(11, 2);
	put(12, 3);
	steps();
	ok(read_pages(10, 3) == 0 && word_of(0) == 1 && word_of(1) == 2 && word_of(2) == 3 && disk.reads == 1,
	   "pages are read from the disk");
	disk.held = true;
	put(11, 4);
	put(12, 5);
	ok(read_pages(11, 2) == 0 && word_of(0) == 4 && word_of(1) == 5 && disk.reads == 1,
	   "pages on their way to the disk are read without the disk");
	disk.held = false;
	disk.held_writes = true;
	ok(read_pages(10, 3) == 0 && word_of(0) == 1 && word_of(1) == 4 && word_of(2) == 5 && disk.reads == 2,
	   "a read combines pages of the disk with pages being written");
	disk.held_writes = false;
	steps();
	ok(read_pages(10, 3) == 0 && word_of(1) == 4 && word_of(2) == 5,
	   "a read after the writes returns the last contents");
	world_close();
}

/* @room is the number of pages in @bytes. */
static void copies_without_room_are_missed_and_made_later(uint64_t bytes, unsigned room)
{
	unsigned refused = 0, wrong = 0;
	uint64_t memory;

	world_open_within(bytes);
	memory = backup_memory(backup);
	disk.held = true;
	for (unsigned i = 0; i < 3 * room; i++) {
		refused += !put(i, 500 + i);
		if (i % 100 == 0)
			backup_step(backup, now += MS);
	}
	ok(refused == 2 * room && backup_behind(backup) == 3 * room && backup_memory(backup) == memory,
	   "pages for a stalled disk wait if the ring has room, and the others are missed at once");
	disk.held = false;
	steps();
	ok(told("does not keep up") == 1 && backup_behind(backup) == 2 * room,
	   "a disk that does not keep up is reported once");
	for (unsigned i = 0; i < room; i++)
		wrong += disk.first[i] != 500 + i;
	for (unsigned i = room; i < 3 * room; i++)
		wrong += disk.first[i] != 0 || !backup_ring_is_missed(&backup->ring, i);
	ok(!wrong && backup_ring_next_missed(&backup->ring, 0) == room,
	   "pages that had room are on the disk, and all others are known as missed");
	put(room, 9);
	ok(!backup_ring_is_missed(&backup->ring, room),
	   "a missed page that is written again and finds room is no longer missed");
	for (unsigned i = room + 1; i < 3 * room; i++) {
		page_fill(data, 500 + i);
		backup_put_again(backup, i, data);
		wrong += backup_ring_is_missed(&backup->ring, i);
		if (i % 500 == 0)
			steps();
	}
	steps();
	ok(!wrong && !backup_behind(backup) && disk.first[3 * room - 1] == 500 + 3 * room - 1 &&
	       told("has caught up") == 1,
	   "missed pages that are copied again reach the disk, and catching up is reported");
	world_close();
}

/* Hands the backup a missed page, as the rebuild thread does after it has read the page from a donor. */
static void put_late(uint64_t page, uint64_t word)
{
	backup_ring_miss(&backup->ring, page);
	page_fill(data, word);
	backup_put_again(backup, page, data);
}

static void late_copy_never_replaces_a_newer_one(void)
{
	world_open();
	put(20, 1);
	steps();
	put(20, 2);
	put_late(20, 1);
	steps();
	ok(disk.first[20] == 2, "a late copy of an older write does not replace a newer one");
	put_late(20, 1);
	put(20, 3);
	ok(read_pages(20, 1) == 0 && word_of(0) == 3, "a late copy of an older write is not read");
	steps();
	ok(disk.first[20] == 3, "a late copy does not replace a newer one, in any order");
	backup_ring_unmiss_all(&backup->ring, 20, 1);
	backup_put_again(backup, 20, data);
	ok(!backup_behind(backup), "a late copy of a page that is not missed any more is dropped");
	page_fill(data, 4);
	integrity_prepare(&far.integrity, 20, data);
	integrity_commit(&far.integrity, 20, 1);
	put_late(20, 3);
	steps();
	ok(disk.first[20] == 3 && backup_behind(backup) == 1 && backup_ring_is_missed(&backup->ring, 20),
	   "a page whose newer write was missed stays missed after a late copy of the older one");
	put_late(20, 4);
	steps();
	ok(disk.first[20] == 4 && !backup_behind(backup), "a late copy of the last write reaches the disk");
	disk.held = true;
	for (uint64_t i = 0; put(1000 + i, 1); i++)
		;
	put_late(20, 4);
	ok(backup_ring_is_missed(&backup->ring, 20) && backup->ring.missed_count == 2,
	   "a late copy that finds no room leaves its page missed");
	disk.held = false;
	steps();
	world_close();
}

static void disk_error_makes_pages_missed_until_it_passes(void)
{
	world_open();
	disk.error = ENOSPC;
	put(30, 1);
	put(40, 2);
	steps();
	ok(backup_behind(backup) == 2 && backup_ring_is_missed(&backup->ring, 30) &&
	       backup_ring_is_missed(&backup->ring, 40) && told("No space left") == 1,
	   "pages that a full disk refuses are missed, and the error is reported once");
	ok(backup->bad_until > now - 200 * MS, "a disk that refused a write is left alone for a while");
	disk.error = 0;
	put(30, 1);
	put(40, 2);
	steps();
	ok(!backup_behind(backup) && disk.first[40] == 2 && told("has caught up") == 1,
	   "missed pages are written once the disk has room");
	world_close();
}

/* The data of a write that no donor has room for. */
static uint8_t own[BACKUP_IO_PAGES * STORE_PAGE];

static void write_begin(uint64_t page, uint32_t count, uint64_t word)
{
	for (uint32_t i = 0; i < count; i++) {
		page_fill(own + (size_t)i * STORE_PAGE, word + i);
		integrity_prepare(&far.integrity, page + i, own + (size_t)i * STORE_PAGE);
	}
	asked = (struct backup_io){
	    .answer = take_answer, .queue = &queue, .page = page, .count = count, .data = own, .write = true};
	backup_ask(backup, &asked);
}

static void store_write_waits_for_its_page_and_the_disk(void)
{
	world_open();
	put(60, 1);
	put(70, 1);
	disk.held = true;
	backup_step(backup, now);
	write_begin(60, 3, 10);
	backup_step(backup, now);
	put_late(61, 1);
	put(70, 2);
	steps();
	ok(read_outcome() == 1 && backup_behind(backup) == 7, "a store write waits for copies of its pages under way");
	disk.held = false;
	backup_step(backup, now);
	ok(read_outcome() == 1 && disk.first[60] == 1,
	   "a store write is not answered before its own batch is on the disk");
	backup_step(backup, now);
	ok(read_outcome() == 0 && disk.first[60] == 10 && disk.first[61] == 11 && disk.first[62] == 12,
	   "a store write is answered when the disk has its pages, not older or late copies");
	write_begin(65, 1, 20);
	backup_step(backup, now);
	backup_step(backup, now);
	ok(read_outcome() == 0 && disk.first[65] == 20, "a second store write waits for no pause");
	world_close();
}

static void store_write_is_split_when_room_is_short(void)
{
	world_open_within(4096);
	disk.held = true;
	for (unsigned i = 0; i < RING_PAGES_MIN - 2; i++)
		put(1000 + i, 1);
	backup_step(backup, now);
	write_begin(60, 4, 10);
	steps();
	ok(read_outcome() == 1 && backup_behind(backup) == RING_PAGES_MIN,
	   "a store write that finds little room begins with a part");
	disk.held = false;
	steps();
	ok(read_outcome() == 0 && disk.first[60] == 10 && disk.first[63] == 13 && !backup_behind(backup),
	   "a store write is answered when the disk has all of its parts");
	disk.held = true;
	for (unsigned i = 0; i < RING_PAGES_MIN - 2; i++)
		put(2000 + i, 1);
	backup_step(backup, now);
	write_begin(80, 4, 10);
	backup_step(backup, now);
	disk.held = false;
	disk.error = ENOSPC;
	backup_step(backup, now);
	disk.error = 0;
	steps();
	ok(read_outcome() == 0 && disk.first[80] == 10 && disk.first[83] == 13,
	   "an error of an earlier batch does not fail a store write");
	disk.error = ENOSPC;
	write_begin(90, 2, 10);
	steps();
	ok(read_outcome() == -EIO, "a store write that the disk refuses fails with -EIO");
	world_close();
}

/* The next process needs a complete backup. Nobody needs a backup that is closed for good. */
static void only_a_backup_that_is_left_writes_everything(void)
{
	for (unsigned leave = 0; leave < 2; leave++) {
		world_open();
		far.leave = leave;
		put(50, 7);
		atomic_store(&backup->stop, true);
		for (unsigned i = 0; i < 100 && !backup_is_over(backup); i++)
			backup_step(backup, now += MS);
		ok(backup_is_over(backup) && disk.first[50] == (leave ? 7 : 0), "%s",
		   leave ? "a backup left to another process writes all copies first"
			 : "a backup closed for good writes no more copies");
		world_close();
	}
}

int main(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	log_set_fd(log_fd);
	batches_keep_the_order_of_writes();
	reads_combine_the_disk_and_copies_under_way();
	copies_without_room_are_missed_and_made_later(0, RING_PAGES_MAX);
	copies_without_room_are_missed_and_made_later(5 << 20, 1024);
	copies_without_room_are_missed_and_made_later(4096, RING_PAGES_MIN);
	late_copy_never_replaces_a_newer_one();
	disk_error_makes_pages_missed_until_it_passes();
	store_write_waits_for_its_page_and_the_disk();
	store_write_is_split_when_room_is_short();
	only_a_backup_that_is_left_writes_everything();
	return tap_done();
}
