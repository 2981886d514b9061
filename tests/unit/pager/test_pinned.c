/*
 * pinned: memory that a device holds. io_uring's registered buffers pin their pages, as O_DIRECT and RDMA do. A read
 * into such a buffer writes the frames that were there at registration, so these frames must not be exchanged.
 */
#include "common/clock.h"
#include "pager_over.h"
#include "tests/lib/tap.h"

#include <liburing.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LOCAL (8 * MIB)
/* The kernel releases the buffers of a closed ring within this time. */
#define RELEASED_NS UINT64_C(60000000000)

struct device {
	struct io_uring ring;
	int file;
	char *buffer;
	size_t length;
};

/* Makes a file and pins @buffer to read it. Each byte of the file's page i is 0x80 | i. Returns false on an error. */
static bool device_open(struct device *device, char *buffer, size_t length)
{
	char page[STORE_PAGE];

	*device = (struct device){.buffer = buffer, .length = length, .file = memfd_create("pinned", MFD_CLOEXEC)};
	for (size_t i = 0; i < length / STORE_PAGE; i++) {
		memset(page, (int)(0x80 | (i & 0x7f)), sizeof page);
		if (write(device->file, page, sizeof page) != (ssize_t)sizeof page)
			return false;
	}
	struct iovec range = {buffer, length};
	return io_uring_queue_init(4, &device->ring, 0) == 0 &&
	       io_uring_register_buffers(&device->ring, &range, 1) == 0;
}

static void device_close(struct device *device)
{
	io_uring_queue_exit(&device->ring);
	close(device->file);
}

static bool device_read(struct device *device)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&device->ring);
	struct io_uring_cqe *cqe;

	io_uring_prep_read_fixed(sqe, device->file, device->buffer, (unsigned)device->length, 0, 0);
	if (io_uring_submit_and_wait(&device->ring, 1) < 0 || io_uring_peek_cqe(&device->ring, &cqe))
		return false;
	bool whole = cqe->res == (int)device->length;
	io_uring_cqe_seen(&device->ring, cqe);
	return whole;
}

/* Returns the number of the buffer's pages that do not hold the bytes from the device. */
static unsigned device_wrong(const struct device *device)
{
	unsigned count = 0;

	for (size_t i = 0; i < device->length / STORE_PAGE; i++) {
		const char *page = device->buffer + i * STORE_PAGE;
		char wanted = (char)(0x80 | (i & 0x7f));

		count += page[0] != wanted || page[STORE_PAGE - 1] != wanted;
	}
	return count;
}

static void touch(char *memory, size_t length)
{
	for (size_t i = 0; i < length; i += STORE_PAGE)
		memory[i] = 1;
}

static struct farpage_stats stats_of(const struct over *over)
{
	struct farpage_stats stats;

	farpage_get_stats(over->farpage, &stats);
	return stats;
}

/* The protections around the buffer before registration, and of the buffer afterwards. */
struct surroundings {
	const char *name;
	int behind; /* protection of the page after the buffer */
	int inside; /* protection of the buffer after it is pinned */
};

static const struct surroundings surroundings[] = {
    {"in the midst of a mapping", PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE},
    {"before a guard page that can be read", PROT_READ, PROT_READ | PROT_WRITE},
    {"before a guard page that cannot be touched", PROT_NONE, PROT_READ | PROT_WRITE},
    {"that its program made read-only", PROT_READ, PROT_READ},
    {"that its program made executable", PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC},
};

static void a_pinned_buffer_holds_what_a_device_reads(const struct surroundings *around)
{
	const size_t length = MIB;
	struct over over;
	struct device device;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens for a pinned buffer %s", around->name))
		return;
	char *memory = over_map(&over, length + MIB), *other = over_map(&over, 4 * LOCAL);
	char *buffer = memory + 3 * STORE_PAGE; /* so that a batch of leaving pages crosses the buffer's end */
	touch(memory, length + MIB);
	mprotect(buffer + length, STORE_PAGE, around->behind);
	if (!ok(device_open(&device, buffer, length), "io_uring pins a buffer %s", around->name))
		return;
	mprotect(buffer, length, around->inside);
	touch(other, 4 * LOCAL);
	farpage_advise(over.farpage, memory, length + MIB, FARPAGE_PAGEOUT);
	ok(device_read(&device), "a device reads into a pinned buffer %s", around->name);
	unsigned wrong = device_wrong(&device);
	ok(wrong == 0, "a pinned buffer %s holds what a device read (%u pages wrong)", around->name, wrong);
	device_close(&device);
	over_close(&over);
}

static void more_pinned_memory_than_the_budget_is_held(void)
{
	const size_t length = LOCAL + 4 * MIB;
	struct over over;
	struct device device;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens for more pinned memory than its budget"))
		return;
	char *buffer = over_map(&over, length), *other = over_map(&over, 2 * LOCAL);
	ok(device_open(&device, buffer, length), "io_uring pins more memory than the budget");
	touch(other, 2 * LOCAL);
	struct farpage_stats stats = stats_of(&over);
	ok(stats.held_bytes > 0, "a program goes on with pinned memory beyond its budget, which is held (%llu bytes)",
	   (unsigned long long)stats.held_bytes);
	ok(device_read(&device) && device_wrong(&device) == 0,
	   "pinned memory larger than the budget holds what a device read");
	device_close(&device);

	for (uint64_t end = clock_now() + RELEASED_NS; stats.held_bytes && clock_now() < end; stats = stats_of(&over))
		touch(other, 2 * LOCAL);
	ok(!stats.held_bytes, "no memory is held once the device pins none");
	touch(other, 2 * LOCAL);
	stats = stats_of(&over);
	ok(stats.resident_bytes <= LOCAL, "resident memory returns to the budget when no page is pinned (%llu bytes)",
	   (unsigned long long)stats.resident_bytes);
	over_close(&over);
}

/* Pages touched in order make the pager fill pages ahead. Filling ahead stops where the program's memory ends. */
static void filling_ahead_stops_at_the_programs_memory(void)
{
	struct over over;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens for memory that is touched in order"))
		return;
	char *memory = over_map(&over, 2 * MIB);
	farpage_unmap(over.farpage, memory + MIB, MIB);
	touch(memory, MIB);
	unsigned char present[64];
	unsigned beyond = 0;
	mincore(memory + MIB, sizeof present * STORE_PAGE, present);
	for (unsigned i = 0; i < sizeof present; i++)
		beyond += present[i] & 1;
	ok(beyond == 0, "no page is filled behind the end of the mapped memory (%u were)", beyond);

	mprotect(memory + MIB / 2, STORE_PAGE, PROT_NONE);
	farpage_advise(over.farpage, memory, MIB, FARPAGE_DISCARD);
	touch(memory, MIB / 2);
	mincore(memory + MIB / 2, sizeof present * STORE_PAGE, present);
	beyond = 0;
	for (unsigned i = 0; i < sizeof present; i++)
		beyond += present[i] & 1;
	ok(beyond == 0, "no page is filled behind a guard page (%u were)", beyond);
	over_close(&over);
}

static sigjmp_buf on_refusal;

static void refused(int number)
{
	siglongjmp(on_refusal, number);
}

struct writer {
	char *memory;
	_Atomic bool stop;
	_Atomic unsigned tries, written;
};

/* Tries to write to read-only memory while the memory leaves and comes back. */
static void *write_there(void *argument)
{
	struct writer *writer = argument;

	for (volatile size_t i = 0; !writer->stop; i++) {
		writer->tries++;
		if (sigsetjmp(on_refusal, 1))
			continue;
		__atomic_store_n(writer->memory + i % (MIB / STORE_PAGE) * STORE_PAGE, 2, __ATOMIC_RELAXED);
		writer->written++;
	}
	return NULL;
}

/* To take read-only pages away, farpage makes their mapping writable for a moment. The program must not notice. */
static void read_only_memory_stays_read_only(void)
{
	struct over over;
	struct sigaction action = {.sa_handler = refused, .sa_flags = SA_NODEFER}, before;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens for read-only memory"))
		return;
	struct writer writer = {.memory = over_map(&over, MIB)};
	char *other = over_map(&over, 4 * LOCAL);
	pthread_t thread;
	touch(writer.memory, MIB);
	mprotect(writer.memory, MIB, PROT_READ);
	sigaction(SIGSEGV, &action, &before);
	pthread_create(&thread, NULL, write_there, &writer);
	for (unsigned round = 0; round < 100; round++) {
		farpage_advise(over.farpage, writer.memory, MIB, FARPAGE_PAGEOUT);
		for (size_t i = 0; i < MIB; i += 7 * STORE_PAGE)
			(void)__atomic_load_n(writer.memory + i, __ATOMIC_RELAXED);
	}
	touch(other, 4 * LOCAL);
	writer.stop = true;
	pthread_join(thread, NULL);
	sigaction(SIGSEGV, &before, NULL);
	ok(writer.tries > 1 && writer.written == 0,
	   "no write to read-only memory succeeds while it leaves (%u of %u did)", writer.written, writer.tries);
	bool same = true;
	for (size_t i = 0; i < MIB; i += STORE_PAGE)
		same &= writer.memory[i] == 1;
	ok(same, "read-only memory that left and came back is unchanged");
	over_close(&over);
}

int main(void)
{
	for (unsigned i = 0; i < sizeof surroundings / sizeof surroundings[0]; i++)
		a_pinned_buffer_holds_what_a_device_reads(&surroundings[i]);
	more_pinned_memory_than_the_budget_is_held();
	filling_ahead_stops_at_the_programs_memory();
	read_only_memory_stays_read_only();
	return tap_done();
}
