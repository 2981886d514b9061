/* backup: see backup.h. */
#include "client/backup/backup.h"

#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* The pause between two batches. Meanwhile, neighbouring pages may arrive, and the thread is not woken for each
   page. */
#define BATCH_PAUSE_NS UINT64_C(2000000)
/* Each warning or error is logged at most once in this time. */
#define TELL_NS UINT64_C(10000000000)
/* After the disk has refused pages, missed pages are not read back for this long. */
#define BAD_NS UINT64_C(1000000000)
#define BACKUP_STACK (128u << 10)
#define NS_PER_S UINT64_C(1000000000)
#define READ_BYTES ((size_t)BACKUP_IO_PAGES * STORE_PAGE)
/* The cookie of a read is its index in `reads`. The cookie of a write is its extent's index | COOKIE_WRITE. */
#define COOKIE_WRITE (UINT64_C(1) << 32)

/* A word of `order`: the page, then its index in the batch. */
#define ORDER_PAGE_SHIFT 10
#define ORDER_PLACE_MASK ((1u << ORDER_PAGE_SHIFT) - 1)

static_assert(BACKUP_BATCH <= ORDER_PLACE_MASK + 1, "the places in a batch fit");
static_assert(BACKUP_IO_PAGES <= 32, "a page of a read is a bit of `there`");
static_assert(BACKUP_READS + 1 < DISK_DEPTH, "reads leave room for writes");

/* --- Any thread ----------------------------------------------------------------------------------------------- */

static void backup_wake(struct backup *backup)
{
	if (atomic_load(&backup->asleep) && atomic_exchange(&backup->asleep, false))
		eventfd_write(backup->wake, 1);
}

void backup_put(struct backup *backup, uint64_t page, uint32_t count, const void *data)
{
	for (uint32_t i = 0; i < count; i++) {
		/* Clears the page's missed bit before the page enters the ring. From then on, the backup's thread may
		   set the bit again. */
		backup_ring_unmiss_all(&backup->ring, page + i, 1);
		if (backup_ring_put(&backup->ring, page + i, (const uint8_t *)data + (size_t)i * STORE_PAGE))
			continue;
		backup_ring_miss(&backup->ring, page + i);
		atomic_store_explicit(&backup->overflown, true, memory_order_relaxed);
	}
	backup_wake(backup);
}

void backup_put_again(struct backup *backup, uint64_t page, const void *data)
{
	backup_ring_put_again(&backup->ring, page, data);
	backup_wake(backup);
}

void backup_ask(struct backup *backup, struct backup_io *io)
{
	assert(io->count && io->count <= BACKUP_IO_PAGES);
	io->next = atomic_load(&backup->asked);
	while (!atomic_compare_exchange_weak(&backup->asked, &io->next, io))
		;
	atomic_store(&backup->asleep, false);
	eventfd_write(backup->wake, 1);
}

uint64_t backup_behind(const struct backup *backup)
{
	return backup_ring_count(&backup->ring) + backup->ring.missed_count;
}

uint64_t backup_memory(const struct backup *backup)
{
	return sizeof *backup - sizeof backup->ring + backup_ring_memory(&backup->ring) + BACKUP_READS * READ_BYTES;
}

/* --- Logging ---------------------------------------------------------------------------------------------------- */

/* If pages are missed, wakes the rebuild thread. If pages have found the ring full, logs a warning. */
static void backup_look_behind(struct backup *backup, uint64_t now)
{
	const char *path = backup->far->backup_path;

	if (!backup->ring.missed_count)
		return;
	mailbox_wake_rebuild(&backup->far->mailbox);
	if (atomic_load_explicit(&backup->overflown, memory_order_relaxed) &&
	    log_again(&backup->told_slow, now, TELL_NS)) {
		atomic_store_explicit(&backup->overflown, false, memory_order_relaxed);
		log_warning("the backup %s does not keep up: %" PRIu64
			    " pages are not on it yet and would be lost with their donors; it catches up when less is "
			    "written",
			    path, backup_behind(backup));
	}
}

static void tell_caught_up(struct backup *backup)
{
	if ((!backup->told_slow && !backup->told_error) || backup_behind(backup))
		return;
	log_warning("the backup %s has caught up: all pages are on it", backup->far->backup_path);
	backup->told_slow = backup->told_error = 0;
	atomic_store_explicit(&backup->overflown, false, memory_order_relaxed);
}

static void tell_error(struct backup *backup, const char *what, int64_t result, uint64_t now)
{
	int error = result < 0 ? (int)-result : EIO;

	if (log_again(&backup->told_error, now, TELL_NS))
		log_error("cannot %s the backup %s: %s; %s", what, backup->far->backup_path, format_errno(error),
			  error == ENOSPC ? "make room there: pages that are not on it would be lost with their donors"
					  : "pages that are not on it would be lost with their donors");
}

/* --- Requests of queues ---------------------------------------------------------------------------------------- */

static void list_put(struct backup_list *list, struct backup_io *io)
{
	io->next = NULL;
	if (list->first)
		list->last->next = io;
	else
		list->first = io;
	list->last = io;
}

static void asked_take(struct backup *backup)
{
	struct backup_io *io = atomic_exchange(&backup->asked, NULL), *first = NULL, *next;

	/* The stack `asked` has the newest request on top. The loop reverses the order, because requests are carried
	   out in the order in which they came. */
	for (; io; io = next) {
		next = io->next;
		io->next = first;
		first = io;
	}
	for (; first; first = next) {
		next = first->next;
		list_put(first->write ? &backup->writes : &backup->to_read, first);
	}
}

/* --- Reads -------------------------------------------------------------------------------------------------------- */

/* Returns true if @data has the contents of the last write of the page. If pages are sealed, @data is the sealed
   page. */
static bool page_is_right(const struct backup *backup, uint64_t page, const uint8_t *data)
{
	const struct integrity *integrity = &backup->far->integrity;

	if (backup->seal)
		return integrity_unseal(integrity, backup->seal, page, data, NULL);
	return integrity_check(integrity, page, data);
}

/* Copies the page's last contents from the ring to @data. Returns false if they are not in the ring. */
static bool ring_read(struct backup *backup, uint64_t page, uint8_t *data)
{
	uint64_t below = backup_ring_count(&backup->ring);
	const uint8_t *copy;

	while ((copy = backup_ring_find(&backup->ring, page, &below))) {
		if (!page_is_right(backup, page, copy))
			continue;
		memcpy(data, copy, STORE_PAGE);
		return true;
	}
	return false;
}

static void io_answer(struct backup_io *io, int status)
{
	io->status = status;
	io->answer(io);
}

static void read_begin(struct backup *backup, unsigned index, struct backup_io *read)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < read->count; i++)
		there |= (uint32_t)ring_read(backup, read->page + i, read->data + (size_t)i * STORE_PAGE) << i;
	if (there == (uint32_t)((UINT64_C(1) << read->count) - 1)) {
		io_answer(read, 0);
		return;
	}
	read->there = there;
	backup->reads[index] = read;
	backup->reading++;
	backup->in_flight++;
	backup_disk_read(backup->disk, read->page, backup->bytes + index * READ_BYTES, read->count, index);
}

static void reads_begin(struct backup *backup)
{
	unsigned index = 0;

	while (backup->to_read.first && backup->reading < BACKUP_READS) {
		struct backup_io *read = backup->to_read.first;

		while (backup->reads[index])
			index++;
		backup->to_read.first = read->next;
		read_begin(backup, index, read);
	}
}

static void read_done(struct backup *backup, unsigned index, int64_t result, uint64_t now)
{
	struct backup_io *read = backup->reads[index];
	const uint8_t *bytes = backup->bytes + index * READ_BYTES;
	int status = result == (int64_t)read->count * STORE_PAGE ? 0 : -EIO;

	for (uint32_t i = 0; i < read->count && status == 0; i++)
		if (!(read->there >> i & 1))
			memcpy(read->data + (size_t)i * STORE_PAGE, bytes + (size_t)i * STORE_PAGE, STORE_PAGE);
	if (status < 0)
		tell_error(backup, "read", result, now);
	backup->reads[index] = NULL;
	backup->reading--;
	io_answer(read, status);
}

/* --- Writes to the backup alone -------------------------------------------------------------------------------- */

/* Puts the pages of writes into the ring, in the order of the requests, as long as there is room. */
static void writes_put(struct backup *backup)
{
	for (struct backup_io *io = backup->writes.first; io; io = io->next) {
		if (io->until)
			continue;
		if (!io->put)
			io->from = backup_ring_put_count(&backup->ring);
		for (; io->put < io->count; io->put++) {
			if (!backup_ring_put(&backup->ring, io->page + io->put,
					     io->data + (size_t)io->put * STORE_PAGE))
				return;
			backup_ring_unmiss_all(&backup->ring, io->page + io->put, 1);
		}
		io->until = backup_ring_put_count(&backup->ring);
	}
}

/* The disk has refused these pages of the current batch. Sets the status of all writes that may have put them into
   the ring. */
static void writes_fail(const struct backup *backup, uint64_t first, uint32_t count)
{
	uint64_t end = backup_ring_taken_count(&backup->ring) + backup->batch;

	for (struct backup_io *io = backup->writes.first; io; io = io->next)
		if (io->put && io->from < end && io->page < first + count && first < io->page + io->put)
			io->status = -EIO;
}

/* Answers the writes whose pages have all left the ring: each is on the disk, or the disk has refused it. */
static void writes_answer(struct backup *backup)
{
	uint64_t taken = backup_ring_taken_count(&backup->ring);
	struct backup_io *io;

	while ((io = backup->writes.first) && io->until && io->until <= taken) {
		backup->writes.first = io->next;
		io_answer(io, io->status);
	}
}

/* --- Batches ---------------------------------------------------------------------------------------------------- */

/* Shell sort, which needs no memory and is fast if most of the array is in order already. */
static void order_sort(uint64_t *order, unsigned count)
{
	static const unsigned gaps[] = {301, 132, 57, 23, 10, 4, 1};

	for (unsigned g = 0; g < sizeof gaps / sizeof *gaps; g++) {
		for (unsigned i = gaps[g]; i < count; i++) {
			uint64_t value = order[i];
			unsigned at = i;

			for (; at >= gaps[g] && order[at - gaps[g]] > value; at -= gaps[g])
				order[at] = order[at - gaps[g]];
			order[at] = value;
		}
	}
}

static uint64_t order_page(const struct backup *backup, unsigned index)
{
	return backup->order[index] >> ORDER_PAGE_SHIFT;
}

/* Begins a batch: stores the newest copy of each page in `order`, sorted by page. Returns the number of pages. */
static unsigned batch_order(struct backup *backup)
{
	unsigned count = 0, kept = 0;

	for (backup->batch = 0; backup->batch < BACKUP_BATCH; backup->batch++) {
		const struct backup_ring_place *place = backup_ring_at(&backup->ring, backup->batch);

		if (!place)
			break;
		/* Skips a copy that was read from donors if the page was written later. The ring may lack the newer
		   copy, so the page counts as missed again. */
		if (place->again &&
		    !page_is_right(backup, place->page, backup_ring_bytes(&backup->ring, backup->batch))) {
			backup_ring_miss(&backup->ring, place->page);
			continue;
		}
		backup->order[count++] = place->page << ORDER_PAGE_SHIFT | backup->batch;
	}
	order_sort(backup->order, count);
	for (unsigned i = 0; i < count; i++)
		if (i + 1 == count || order_page(backup, i) != order_page(backup, i + 1))
			backup->order[kept++] = backup->order[i];
	return kept;
}

static void batch_end(struct backup *backup, uint64_t now)
{
	backup_ring_take(&backup->ring, backup->batch);
	backup->batch = 0;
	writes_answer(backup);
	backup_look_behind(backup, now);
}

/* Starts as many operations of the batch as may be in flight. */
static void batch_go_on(struct backup *backup)
{
	while (backup->begun < backup->extents && backup->in_flight < DISK_DEPTH - BACKUP_READS) {
		unsigned index = backup->begun++, piece = backup->extent[index].piece;

		backup_disk_write(backup->disk, order_page(backup, piece), &backup->pieces[piece],
				  backup->extent[index].count, COOKIE_WRITE | index);
		backup->in_flight++;
	}
}

static void batch_begin(struct backup *backup, uint64_t now)
{
	unsigned count = batch_order(backup);

	/* After a full batch, does not pause, because the ring may have more pages. */
	backup->due = backup->batch == BACKUP_BATCH ? now : now + BATCH_PAUSE_NS;
	backup->extents = backup->begun = backup->done = 0;
	for (unsigned i = 0, run; i < count; i += run) {
		uint64_t first = order_page(backup, i);

		for (run = 0; run < DISK_PIECES && i + run < count && order_page(backup, i + run) == first + run; run++)
			backup->pieces[i + run] = (struct iovec){
			    backup_ring_bytes(&backup->ring, backup->order[i + run] & ORDER_PLACE_MASK), STORE_PAGE};
		backup->extent[backup->extents].piece = i;
		backup->extent[backup->extents++].count = run;
	}
	if (backup->extents)
		batch_go_on(backup);
	else
		batch_end(backup, now);
}

static void write_done(struct backup *backup, unsigned index, int64_t result, uint64_t now)
{
	uint64_t first = order_page(backup, backup->extent[index].piece);
	uint32_t count = backup->extent[index].count;

	if (result != (int64_t)count * STORE_PAGE) {
		atomic_store(&backup->bad_until, now + BAD_NS);
		tell_error(backup, "write", result, now);
		for (uint32_t i = 0; i < count; i++)
			backup_ring_miss(&backup->ring, first + i);
		writes_fail(backup, first, count);
	}
	if (++backup->done == backup->extents)
		batch_end(backup, now);
	else
		batch_go_on(backup);
}

/* --- Steps ------------------------------------------------------------------------------------------------------ */

static void backup_reap(struct backup *backup, uint64_t now)
{
	struct backup_disk_done dones[32];
	unsigned count;

	do {
		count = backup_disk_reap(backup->disk, dones, 32);
		for (unsigned i = 0; i < count; i++) {
			backup->in_flight--;
			if (dones[i].cookie & COOKIE_WRITE)
				write_done(backup, (unsigned)(dones[i].cookie & 0xffff), dones[i].result, now);
			else
				read_done(backup, (unsigned)dones[i].cookie, dones[i].result, now);
		}
	} while (count);
}

bool backup_is_over(const struct backup *backup)
{
	return atomic_load(&backup->stop) && !backup->in_flight &&
	       !(backup->far->leave && backup_ring_count(&backup->ring));
}

uint64_t backup_step(struct backup *backup, uint64_t now)
{
	const bool goes_on = !atomic_load(&backup->stop) || backup->far->leave;
	const struct backup_io *first;

	backup_reap(backup, now);
	asked_take(backup);
	reads_begin(backup);
	writes_put(backup);
	/* If a queue waits for a write, the batch begins without the pause. */
	first = backup->writes.first;
	if (!backup->batch && goes_on && (now >= backup->due || (first && first->until)) &&
	    backup_ring_at(&backup->ring, 0))
		batch_begin(backup, now);
	tell_caught_up(backup);
	if (backup_disk_submit(backup->disk) < 0)
		return now + BATCH_PAUSE_NS;
	if (backup_is_over(backup))
		return now;
	/* During a batch, waits for the disk. After a batch, pauses until `due`, or sleeps until an event wakes the
	   thread. */
	return backup->batch || now >= backup->due ? UINT64_MAX : backup->due;
}

/* --- The backup's thread --------------------------------------------------------------------------------------- */

/* Waits for an event, but at most @ns. UINT64_MAX means no limit. */
static void backup_wait(struct backup *backup, uint64_t ns)
{
	struct pollfd fds[] = {{.fd = backup->wake, .events = POLLIN},
			       {.fd = backup_disk_fd(backup->disk), .events = POLLIN}};
	struct timespec timeout = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	eventfd_t value;

	/* During a batch, and in the pause after it, the thread looks at the ring again anyway, so new pages need not
	   wake it. For a sleep without limit, `asleep` is set first, and then the ring is looked at once more, so
	   that no page is overlooked. */
	atomic_store(&backup->asleep, ns == UINT64_MAX && !backup->batch);
	if (!backup->asleep || !backup_ring_at(&backup->ring, 0))
		ppoll(fds, 2, ns == UINT64_MAX ? NULL : &timeout, NULL);
	atomic_store(&backup->asleep, false);
	if (fds[0].revents)
		eventfd_read(backup->wake, &value);
}

static void *backup_main(void *argument)
{
	struct backup *backup = argument;

	while (!backup_is_over(backup)) {
		uint64_t now = clock_now(), due = backup_step(backup, now);

		if (due > now)
			backup_wait(backup, due == UINT64_MAX ? UINT64_MAX : due - now);
	}
	return NULL;
}

int backup_start(struct backup *backup)
{
	int error;

	if (!backup)
		return 0;
	error = thread_start(&backup->thread, NULL, BACKUP_STACK, backup_main, backup);
	backup->started = error == 0;
	if (error < 0)
		log_error("cannot start the thread that keeps the backup: %s", format_errno(error));
	return error;
}

void backup_stop(struct backup *backup)
{
	if (!backup || !backup->started)
		return;
	atomic_store(&backup->stop, true);
	eventfd_write(backup->wake, 1);
	pthread_join(backup->thread, NULL);
	backup->started = false;
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

/* Marks all live pages as missed, so that they are copied again. The copies in the earlier process's ring are
   gone. */
static void backup_miss_all(struct backup *backup)
{
	struct far *far = backup->far;

	for (uint64_t page = 0; page < far->integrity.pages; page++) {
		if (chunk_state(&far->table, page / far->table.pages) != CHUNK_READY)
			page += far->table.pages - 1 - page % far->table.pages;
		else if (integrity_kind(&far->integrity, page) == INTEGRITY_IS_LIVE)
			backup_ring_miss(&backup->ring, page);
	}
}

/* Returns how many bytes of the store can be in use at once, because donors lend no more. */
static uint64_t backup_room(const struct far *far)
{
	uint64_t bytes = 0, all = far->integrity.pages * STORE_PAGE;

	for (unsigned i = 0; i < far->donor_count; i++)
		bytes += far->donors[i].donated;
	bytes /= far->config.replicas;
	return bytes < all ? bytes : all;
}

int backup_open(struct far *far, struct backup **ret_backup)
{
	struct backup *backup = aligned_alloc(64, (sizeof *backup + 63) / 64 * 64);
	int error = -ENOMEM;

	if (!backup)
		return error;
	memset(backup, 0, sizeof *backup);
	backup->far = far;
	backup->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	backup->bytes = mmap(NULL, BACKUP_READS * READ_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (backup->bytes == MAP_FAILED)
		backup->bytes = NULL;
	if (backup->wake >= 0 && backup->bytes)
		error = backup_ring_open(&backup->ring, far->integrity.pages, far->config.backup_bytes);
	if (error == 0 && far->config.encrypt)
		error = integrity_sealer(&far->integrity, &backup->seal);
	if (error == 0)
		error = backup_disk_open(far->backup_path, far->integrity.pages, backup_room(far), far->state != NULL,
					 far->adopted, &backup->disk);
	else
		log_error("cannot keep a backup: %s", format_errno(error));
	if (error < 0) {
		backup_close(backup, far->adopted);
		return error;
	}
	if (far->adopted)
		backup_miss_all(backup);
	far->queue_memory += backup_memory(backup);
	*ret_backup = backup;
	return 0;
}

void backup_close(struct backup *backup, bool keep)
{
	if (!backup)
		return;
	backup_disk_close(backup->disk, keep);
	backup_ring_close(&backup->ring);
	seal_close(backup->seal);
	if (backup->bytes)
		munmap(backup->bytes, BACKUP_READS * READ_BYTES);
	if (backup->wake >= 0)
		close(backup->wake);
	free(backup);
}
