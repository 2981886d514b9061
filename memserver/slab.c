/* slab: see slab.h. */
#include "memserver/slab.h"

#include "common/log.h"
#include "common/machine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

#define PAGE ((size_t)4096)
#define HUGE_PAGE_BITS 21
#define HUGE_PAGE ((size_t)1 << HUGE_PAGE_BITS)

struct slab_order {
	enum slab_order_kind kind;
	uint32_t slab;
	struct fabric_domain *domain;
	bool abandoned;
};

/* A ring of config.slabs entries. */
struct slab_queue {
	struct slab_order *orders;
	uint32_t head, count;
};

struct slab_memory {
	void *base; /* NULL if the slab has no memory */
	bool huge;  /* the memory is in files.huge */
	struct fabric_region *region;
};

struct slab_worker {
	struct slab_config config; /* constant, except its reserve */
	struct slab_files files;
	bool dirty; /* the files may have contents where no slab is leased */
	_Atomic uint64_t reserve;
	struct slab_memory *memory; /* per slab; owned by the worker while an order for the slab is pending */
	int eventfd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t ordered;
	bool stop;
	struct slab_queue queues[SLAB_ORDER_KINDS];
	bool cleared;                /* the last order cleared a slab */
	bool *abandoned;             /* per slab: nobody needs the memory that its last order prepares */
	struct slab_answer *answers; /* a ring of config.slabs entries */
	uint32_t answer_head, answer_count;
};

/*
 * Maps slab @slab of the file @fd at an address that is aligned to huge pages. The kernel uses huge pages if
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled is "advise" or "always". Huge pages save TLB misses when the donor
 * serves reads and writes.
 */
static void *file_map(int fd, size_t bytes, uint32_t slab)
{
	const off_t offset = (off_t)bytes * slab;
	size_t span = bytes + HUGE_PAGE;
	char *memory = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (memory == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)memory & (HUGE_PAGE - 1);
	if (head)
		munmap(memory, head);
	munmap(memory + head + bytes, span - bytes - head);
	memory += head;
	if (mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED) {
		munmap(memory, bytes);
		return NULL;
	}
	madvise(memory, bytes, MADV_HUGEPAGE); /* only advice */
	/* Keeps the clients' data out of core dumps and out of child processes. */
	madvise(memory, bytes, MADV_DONTDUMP);
	madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

static int piece_populate(char *memory, size_t bytes)
{
	int status;

	do {
		status = madvise(memory, bytes, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
	} while (status == -EINTR || status == -EAGAIN);
	if (status != -EINVAL)
		return status == -EFAULT || status == -EHWPOISON ? -ENOMEM : status;
	/* Kernels before 5.14 allocate the pages when they are written. */
	for (size_t at = 0; at < bytes; at += PAGE)
		*(volatile char *)(memory + at) = 0;
	return 0;
}

/*
 * Populates the memory in pieces that take a fraction of a ms each. Between pieces, the thread that serves clients may
 * get this CPU. Measured with two CPUs and three busy threads: in one piece, reads took 8 ms at p99; in pieces, 0.2 ms.
 */
static int populate(char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += HUGE_PAGE) {
		int status = piece_populate(memory + at, bytes - at < HUGE_PAGE ? bytes - at : HUGE_PAGE);

		if (status < 0)
			return status;
		sched_yield();
	}
	return 0;
}

static int reserve_check(const struct slab_worker *worker)
{
	struct machine_memory memory;
	int status = machine_memory_read(&memory);

	if (status < 0)
		return status;
	return memory.available >= worker->reserve + worker->config.bytes ? 0 : -ENOMEM;
}

static int memory_get(const struct slab_worker *worker, uint32_t slab, struct slab_memory *memory)
{
	const size_t bytes = worker->config.bytes;
	int status = 0;

	*memory = (struct slab_memory){0};
	if (worker->config.huge && worker->files.huge >= 0)
		memory->base = file_map(worker->files.huge, bytes, slab);
	memory->huge = memory->base != NULL;
	if (!memory->base) { /* hugetlb pages are set aside already; other pages come from available memory */
		status = reserve_check(worker);
		if (status < 0)
			return status;
		memory->base = file_map(worker->files.plain, bytes, slab);
	}
	if (!memory->base)
		return -ENOMEM;
	status = populate(memory->base, bytes);
	if (!status && worker->dirty)
		memset(memory->base, 0, bytes);
	if (!status && worker->config.lock && mlock(memory->base, bytes) < 0)
		status = -errno;
	return status;
}

/* Returns the memory of a part of a file to the kernel. The part then reads as zeroes. Returns 0 or -errno. */
static int file_discard(int fd, uint64_t offset, uint64_t bytes)
{
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0)
		return 0;
	log_error("cannot return the memory of a slab to the kernel: %s", strerror(errno));
	return -errno;
}

static void memory_put(struct slab_worker *worker, uint32_t slab)
{
	struct slab_memory *memory = &worker->memory[slab];
	const size_t bytes = worker->config.bytes;

	fabric_deregister(memory->region);
	/* The next owner of the slab must not see the data of this owner. */
	if (memory->base &&
	    file_discard(memory->huge ? worker->files.huge : worker->files.plain, (uint64_t)bytes * slab, bytes) < 0)
		memset(memory->base, 0, bytes);
	if (memory->base && munmap(memory->base, bytes) < 0)
		log_error("cannot unmap a slab: %s", strerror(errno));
	*memory = (struct slab_memory){0};
}

static int memory_register(const struct slab_config *config, struct fabric_domain *domain, struct slab_memory *memory)
{
	return fabric_register(domain, memory->base, config->bytes, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
			       &memory->region);
}

static int slab_make(struct slab_worker *worker, const struct slab_order *order, struct slab_memory *memory)
{
	int status = memory_get(worker, order->slab, memory);

	if (status == 0)
		status = memory_register(&worker->config, order->domain, memory);
	if (status < 0)
		memory_put(worker, order->slab);
	return status;
}

static struct slab_answer order_do(struct slab_worker *worker, struct slab_order order)
{
	struct slab_answer answer = {.kind = order.kind, .slab = order.slab};
	struct slab_memory *memory = &worker->memory[order.slab];

	if (order.kind == SLAB_PREPARE && order.abandoned) {
		answer.status = -ECANCELED;
	} else if (order.kind == SLAB_PREPARE) {
		answer.status = slab_make(worker, &order, memory);
		answer.memory = memory->base;
		answer.region = memory->region;
	} else {
		memory_put(worker, order.slab);
	}
	return answer;
}

/*
 * The lock must be held. Takes the next order. Returns false if there is none. Clearing goes first, because deadlines
 * wait for it, and preparing may need the memory. But a client that waits for a slab must not wait until all slabs of
 * another client are cleared, so the two take turns. One slab never has both orders at a time.
 */
static bool order_take(struct slab_worker *worker, struct slab_order *ret_order)
{
	const bool prepares =
	    worker->queues[SLAB_PREPARE].count && (worker->cleared || !worker->queues[SLAB_CLEAR].count);
	struct slab_queue *queue = &worker->queues[prepares ? SLAB_PREPARE : SLAB_CLEAR];

	if (!queue->count)
		return false;
	worker->cleared = !prepares;
	*ret_order = queue->orders[queue->head];
	ret_order->abandoned = worker->abandoned[ret_order->slab];
	queue->head = (queue->head + 1) % worker->config.slabs;
	queue->count--;
	return true;
}

static void *work(void *data)
{
	struct slab_worker *worker = data;
	const uint32_t size = worker->config.slabs;

	pthread_setname_np(pthread_self(), "slab");
	pthread_mutex_lock(&worker->lock);
	for (;;) {
		struct slab_order order;
		struct slab_answer answer;

		if (worker->stop)
			break;
		if (!order_take(worker, &order)) {
			pthread_cond_wait(&worker->ordered, &worker->lock);
			continue;
		}
		pthread_mutex_unlock(&worker->lock);

		answer = order_do(worker, order);

		pthread_mutex_lock(&worker->lock);
		assert(worker->answer_count < size);
		worker->answers[(worker->answer_head + worker->answer_count++) % size] = answer;
		eventfd_write(worker->eventfd, 1);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

void slab_set_reserve(struct slab_worker *worker, uint64_t bytes)
{
	worker->reserve = bytes;
}

/*
 * Makes an empty file. @flags may ask for hugetlb pages, and then name their size: the kernel's default size may be
 * larger than a slab (default_hugepagesz=1G). Returns its descriptor, or -errno.
 */
static int file_make(unsigned flags)
{
	/* A machine may refuse files that could be executed (sysctl vm.memfd_noexec). */
	int fd = memfd_create("farpage-slabs", MFD_CLOEXEC | MFD_NOEXEC_SEAL | flags);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("farpage-slabs", MFD_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* Makes a file longer until it has room for all slabs. Returns 0 or -errno. */
static int file_fit(int fd, const struct slab_config *config)
{
	const off_t wanted = (off_t)config->bytes * config->slabs;
	struct stat is;

	if (fstat(fd, &is) < 0 || (is.st_size < wanted && ftruncate(fd, wanted) < 0))
		return -errno;
	return 0;
}

/* Opens the files, or takes over those of the previous program. Without hugetlb pages, all slabs take plain pages. */
static int files_open(const struct slab_config *config, struct slab_files *files)
{
	const bool huge = config->huge && config->bytes >= HUGE_PAGE;
	int status;

	if (config->inherited) {
		*files = *config->inherited;
		fcntl(files->plain, F_SETFD, FD_CLOEXEC);
		if (files->huge >= 0)
			fcntl(files->huge, F_SETFD, FD_CLOEXEC);
	}
	if (files->plain < 0)
		files->plain = file_make(0);
	if (files->huge < 0 && huge)
		files->huge = file_make(MFD_HUGETLB | HUGE_PAGE_BITS << MAP_HUGE_SHIFT);
	status = files->plain < 0 ? files->plain : file_fit(files->plain, config);
	if (status == 0 && files->huge >= 0 && huge)
		status = file_fit(files->huge, config);
	return status;
}

int slab_open(const struct slab_config *config, struct slab_worker **ret_worker)
{
	struct slab_worker *worker = calloc(1, sizeof *worker);
	int status = -ENOMEM;

	if (!worker)
		return -ENOMEM;
	worker->config = *config;
	worker->reserve = config->reserve;
	worker->files = (struct slab_files){-1, -1};
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->ordered, NULL);
	worker->eventfd = -1;
	worker->memory = calloc(config->slabs, sizeof *worker->memory);
	worker->abandoned = calloc(config->slabs, sizeof *worker->abandoned);
	worker->answers = calloc(config->slabs, sizeof *worker->answers);
	for (unsigned i = 0; i < SLAB_ORDER_KINDS; i++) {
		worker->queues[i].orders = calloc(config->slabs, sizeof *worker->queues[i].orders);
		if (!worker->queues[i].orders)
			goto close;
	}
	if (!worker->memory || !worker->abandoned || !worker->answers)
		goto close;
	status = files_open(config, &worker->files);
	if (status < 0)
		goto close;
	worker->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->eventfd < 0) {
		status = -errno;
		goto close;
	}
	status = -pthread_create(&worker->thread, NULL, work, worker);
	if (status < 0)
		goto close;
	worker->started = true;
	*ret_worker = worker;
	return 0;
close:
	slab_close(worker);
	return status;
}

void slab_close(struct slab_worker *worker)
{
	if (!worker)
		return;
	if (worker->started) {
		pthread_mutex_lock(&worker->lock);
		worker->stop = true;
		pthread_cond_signal(&worker->ordered);
		pthread_mutex_unlock(&worker->lock);
		pthread_join(worker->thread, NULL);
	}
	for (uint32_t i = 0; worker->memory && i < worker->config.slabs; i++)
		memory_put(worker, i);
	if (worker->eventfd >= 0)
		close(worker->eventfd);
	if (worker->files.plain >= 0)
		close(worker->files.plain);
	if (worker->files.huge >= 0)
		close(worker->files.huge);
	pthread_cond_destroy(&worker->ordered);
	pthread_mutex_destroy(&worker->lock);
	free(worker->memory);
	for (unsigned i = 0; i < SLAB_ORDER_KINDS; i++)
		free(worker->queues[i].orders);
	free(worker->abandoned);
	free(worker->answers);
	free(worker);
}

int slab_fd(const struct slab_worker *worker)
{
	return worker->eventfd;
}

struct slab_files slab_files(const struct slab_worker *worker)
{
	return worker->files;
}

bool slab_is_huge(const struct slab_worker *worker, uint32_t slab)
{
	assert(slab < worker->config.slabs);
	return worker->memory[slab].huge;
}

int slab_adopt(struct slab_worker *worker, uint32_t slab, bool huge, struct fabric_domain *domain,
	       struct fabric_region **ret_region)
{
	struct slab_memory memory = {.huge = huge};
	const int fd = huge ? worker->files.huge : worker->files.plain;
	int status;

	assert(slab < worker->config.slabs && !worker->memory[slab].base);
	memory.base = fd < 0 ? NULL : file_map(fd, worker->config.bytes, slab);
	if (!memory.base)
		return -ENOMEM;
	if (worker->config.lock && mlock(memory.base, worker->config.bytes) < 0)
		log_warning("cannot lock slab %u, which may now be swapped out: %s", slab, strerror(errno));
	status = memory_register(&worker->config, domain, &memory);
	if (status < 0) {
		munmap(memory.base, worker->config.bytes);
		return status;
	}
	worker->memory[slab] = memory;
	*ret_region = memory.region;
	return 0;
}

/* Discards all of a file that is not memory of an adopted slab. Returns 0 or -errno. */
static int file_discard_rest(const struct slab_worker *worker, int fd, bool huge)
{
	const uint64_t bytes = worker->config.bytes, slabs = worker->config.slabs;
	struct stat is;
	int status = 0;

	if (fd < 0)
		return 0;
	if (fstat(fd, &is) < 0)
		return -errno;
	for (uint64_t i = 0; status == 0 && i < slabs; i++)
		if (!worker->memory[i].base || worker->memory[i].huge != huge)
			status = file_discard(fd, i * bytes, bytes);
	if (status == 0 && (uint64_t)is.st_size > slabs * bytes)
		status = file_discard(fd, slabs * bytes, (uint64_t)is.st_size - slabs * bytes);
	return status;
}

void slab_discard_rest(struct slab_worker *worker)
{
	worker->dirty = file_discard_rest(worker, worker->files.plain, false) < 0 ||
			file_discard_rest(worker, worker->files.huge, true) < 0;
}

static void order_put(struct slab_worker *worker, struct slab_order order)
{
	const uint32_t size = worker->config.slabs;
	struct slab_queue *queue = &worker->queues[order.kind];

	assert(order.slab < size);
	pthread_mutex_lock(&worker->lock);
	assert(queue->count < size);
	worker->abandoned[order.slab] = false;
	queue->orders[(queue->head + queue->count++) % size] = order;
	pthread_cond_signal(&worker->ordered);
	pthread_mutex_unlock(&worker->lock);
}

void slab_prepare(struct slab_worker *worker, uint32_t slab, struct fabric_domain *domain)
{
	order_put(worker, (struct slab_order){.kind = SLAB_PREPARE, .slab = slab, .domain = domain});
}

void slab_abandon(struct slab_worker *worker, uint32_t slab)
{
	assert(slab < worker->config.slabs);
	pthread_mutex_lock(&worker->lock);
	worker->abandoned[slab] = true;
	pthread_mutex_unlock(&worker->lock);
}

void slab_clear(struct slab_worker *worker, uint32_t slab)
{
	order_put(worker, (struct slab_order){.kind = SLAB_CLEAR, .slab = slab});
}

bool slab_answer(struct slab_worker *worker, struct slab_answer *ret_answer)
{
	eventfd_t ignored;
	bool any;

	pthread_mutex_lock(&worker->lock);
	any = worker->answer_count;
	if (any) {
		*ret_answer = worker->answers[worker->answer_head];
		worker->answer_head = (worker->answer_head + 1) % worker->config.slabs;
		worker->answer_count--;
	}
	if (!worker->answer_count)
		eventfd_read(worker->eventfd, &ignored);
	pthread_mutex_unlock(&worker->lock);
	return any;
}
