/*
 * store_memory: a store whose pages are an array in local memory, for tests of code that uses a store.
 *
 * Theory of operation. One private mapping holds the pages. A bit for each page shows if it was written.
 * memory_submit() carries out a request at once, and puts its completion into a ring, where memory_poll() finds it.
 * Only the queue's own thread makes completions. So only a memory_submit() after memory_arm() needs to write to the
 * queue's descriptor, an eventfd.
 *
 * Threads. Each queue is used by one thread. The bits are atomic, because several queues may write pages of one word.
 * The store's contract forbids two accesses to one page at the same time.
 */
#include "client/store.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_DEPTH 256u /* a power of two */

struct memory_store {
	struct store base;
	uint8_t *bytes;
	_Atomic uint64_t *written; /* one bit for each page */
	_Atomic uint64_t live, reads, writes, discards, zero_reads;
};

struct memory_queue {
	struct store_queue base;
	int fd;
	bool armed, signalled;
	unsigned head, tail; /* completions head .. tail - 1 wait to be polled */
	struct store_done dones[MEMORY_DEPTH];
};

static bool memory_is_written(const struct memory_store *memory, uint64_t page)
{
	return atomic_load_explicit(&memory->written[page / 64], memory_order_acquire) >> (page % 64) & 1;
}

static void memory_mark(struct memory_store *memory, uint64_t page)
{
	uint64_t bit = UINT64_C(1) << (page % 64);

	if (!(atomic_fetch_or(&memory->written[page / 64], bit) & bit))
		memory->live++;
}

static void memory_unmark(struct memory_store *memory, uint64_t page)
{
	uint64_t bit = UINT64_C(1) << (page % 64);

	if (atomic_fetch_and(&memory->written[page / 64], ~bit) & bit)
		memory->live--;
}

static int memory_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	(void)store;
	if (!length)
		return -EINVAL;
	*ret_buffer = base; /* there is nothing to register, but the result must not be NULL */
	return 0;
}

static void memory_deregister(struct store *store, struct store_buffer *buffer)
{
	(void)store;
	(void)buffer;
}

static int memory_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct memory_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return -ENOMEM;
	queue->base.store = store;
	queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (queue->fd < 0) {
		int error = -errno;

		free(queue);
		return error;
	}
	*ret_queue = &queue->base;
	return 0;
}

static void memory_queue_close(struct store_queue *base)
{
	struct memory_queue *queue = (struct memory_queue *)base;

	close(queue->fd);
	free(queue);
}

static void memory_read(struct memory_store *memory, const struct store_io *io)
{
	uint8_t *data = io->data;

	for (uint32_t i = 0; i < io->count; i++, data += STORE_PAGE) {
		uint64_t page = io->page + i;

		if (memory_is_written(memory, page)) {
			memcpy(data, memory->bytes + page * STORE_PAGE, STORE_PAGE);
		} else {
			memset(data, 0, STORE_PAGE);
			memory->zero_reads++;
		}
	}
	memory->reads += io->count;
}

static void memory_write(struct memory_store *memory, const struct store_io *io)
{
	memcpy(memory->bytes + io->page * STORE_PAGE, io->data, (size_t)io->count * STORE_PAGE);
	for (uint32_t i = 0; i < io->count; i++)
		memory_mark(memory, io->page + i);
	memory->writes += io->count;
}

static int memory_submit(struct store_queue *base, const struct store_io *ios, unsigned count)
{
	struct memory_queue *queue = (struct memory_queue *)base;
	struct memory_store *memory = (struct memory_store *)base->store;
	unsigned taken = 0;

	for (; taken < count && queue->tail - queue->head < MEMORY_DEPTH; taken++) {
		const struct store_io *io = &ios[taken];

		if (io->op == STORE_READ)
			memory_read(memory, io);
		else
			memory_write(memory, io);
		queue->dones[queue->tail++ % MEMORY_DEPTH] = (struct store_done){.cookie = io->cookie};
	}
	if (taken && queue->armed) {
		queue->armed = false;
		queue->signalled = eventfd_write(queue->fd, 1) == 0;
	}
	return (int)taken;
}

static int memory_poll(struct store_queue *base, struct store_done *dones, unsigned max)
{
	struct memory_queue *queue = (struct memory_queue *)base;
	unsigned count = 0;

	while (count < max && queue->head != queue->tail)
		dones[count++] = queue->dones[queue->head++ % MEMORY_DEPTH];
	if (queue->signalled && queue->head == queue->tail) {
		eventfd_t value;

		eventfd_read(queue->fd, &value);
		queue->signalled = false;
	}
	return (int)count;
}

static int memory_queue_fd(const struct store_queue *base)
{
	return ((const struct memory_queue *)base)->fd;
}

static int memory_arm(struct store_queue *base)
{
	struct memory_queue *queue = (struct memory_queue *)base;

	queue->armed = queue->head == queue->tail;
	return !queue->armed;
}

static void memory_discard(struct store *base, uint64_t page, uint64_t count)
{
	struct memory_store *memory = (struct memory_store *)base;

	for (uint64_t i = 0; i < count;) {
		/* A huge store may have few written pages, so this skips 64 pages at once. */
		bool none = (page + i) % 64 == 0 && count - i >= 64 && !atomic_load(&memory->written[(page + i) / 64]);

		if (!none)
			memory_unmark(memory, page + i);
		i += none ? 64 : 1;
	}
	madvise(memory->bytes + page * STORE_PAGE, count * STORE_PAGE, MADV_DONTNEED);
	memory->discards += count;
}

static bool memory_same(const struct store *base, uint64_t page, const void *data)
{
	const struct memory_store *memory = (const struct memory_store *)base;
	static const uint8_t zeroes[STORE_PAGE];

	return !memcmp(memory_is_written(memory, page) ? memory->bytes + page * STORE_PAGE : zeroes, data, STORE_PAGE);
}

static void memory_stats(const struct store *base, struct store_stats *ret_stats)
{
	const struct memory_store *memory = (const struct memory_store *)base;

	*ret_stats = (struct store_stats){
	    .pages_live = memory->live,
	    .bytes_leased = memory->live * STORE_PAGE,
	    .bytes_available = (base->pages - memory->live) * STORE_PAGE,
	    .reads = memory->reads,
	    .writes = memory->writes,
	    .discards = memory->discards,
	    .zero_reads = memory->zero_reads,
	};
}

/* The pages stand for memory on donors, so only the marks of written pages count. */
static uint64_t memory_memory(const struct store *base)
{
	return (base->pages + 63) / 64 * sizeof(uint64_t);
}

static void memory_close(struct store *base)
{
	struct memory_store *memory = (struct memory_store *)base;

	munmap(memory->bytes, base->pages * STORE_PAGE);
	munmap((void *)memory->written, (base->pages + 63) / 64 * sizeof(uint64_t));
	free(memory);
}

static const struct store_ops memory_ops = {
    .register_buffer = memory_register,
    .deregister_buffer = memory_deregister,
    .queue_open = memory_queue_open,
    .queue_close = memory_queue_close,
    .submit = memory_submit,
    .poll = memory_poll,
    .queue_fd = memory_queue_fd,
    .arm = memory_arm,
    .discard = memory_discard,
    .same = memory_same,
    .stats = memory_stats,
    .memory = memory_memory,
    .close = memory_close,
};

static void *memory_map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int store_open_memory(uint64_t pages, struct store **ret_store)
{
	struct memory_store *memory;

	if (!pages || pages > SIZE_MAX / STORE_PAGE)
		return -EINVAL;
	memory = calloc(1, sizeof *memory);
	if (!memory)
		return -ENOMEM;
	memory->base = (struct store){.ops = &memory_ops, .pages = pages};
	memory->bytes = memory_map(pages * STORE_PAGE);
	if (memory->bytes == MAP_FAILED)
		goto free_memory;
	memory->written = memory_map((pages + 63) / 64 * sizeof(uint64_t));
	if (memory->written == MAP_FAILED)
		goto unmap_bytes;
	*ret_store = &memory->base;
	return 0;

unmap_bytes:
	munmap(memory->bytes, pages * STORE_PAGE);
free_memory:
	free(memory);
	return -ENOMEM;
}
