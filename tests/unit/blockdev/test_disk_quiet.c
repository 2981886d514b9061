/*
 * disk: requests of an open queue allocate nothing, take no mutex, make no system call while no thread waits, and touch
 * no memory for the first time. The linker replaces the real functions with the __wrap functions, in the disk and in
 * the stores below it.
 */
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/disk_over.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGES 600u
#define BYTES ((uint64_t)PAGES * STORE_PAGE)
#define DEPTH 32u
#define ROUNDS 400u

#define SANITIZED (UNDER_ASAN || UNDER_TSAN) /* the sanitizer's memory causes page faults too */

static unsigned long allocations, mutexes, calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **ret_memory, size_t alignment, size_t size);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_eventfd_read(int fd, eventfd_t *ret_value);
int __real_eventfd_write(int fd, eventfd_t value);
int __real_madvise(void *memory, size_t length, int advice);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_eventfd_read(int fd, eventfd_t *ret_value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_madvise(void *memory, size_t length, int advice);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	allocations++;
	return __real_calloc(count, size);
}

int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	allocations++;
	return __real_posix_memalign(ret_memory, alignment, size);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	mutexes++;
	return __real_pthread_mutex_lock(mutex);
}

int __wrap_eventfd_read(int fd, eventfd_t *ret_value)
{
	calls++;
	return __real_eventfd_read(fd, ret_value);
}

int __wrap_eventfd_write(int fd, eventfd_t value)
{
	calls++;
	return __real_eventfd_write(fd, value);
}

/* The memory store gives pages back to the kernel. Writes would then cause page faults, so this only zeroes. */
int __wrap_madvise(void *memory, size_t length, int advice)
{
	if (advice != MADV_DONTNEED)
		return __real_madvise(memory, length, advice);
	memset(memory, 0, length);
	return 0;
}

static uint8_t *memory;
static struct store_buffer *key;

static void round_of(struct disk_queue *queue, struct random_state *random)
{
	static struct disk_request requests[DEPTH];
	struct disk_request *done[DEPTH];
	unsigned count = 0;

	for (unsigned i = 0; i < DEPTH; i++) {
		uint64_t length = (1 + random_below(random, 70)) * DISK_SECTOR;

		if (!random_below(random, 20))
			length = BYTES / 2;
		requests[i] = (struct disk_request){
		    .op = (enum disk_op)random_below(random, DISK_OPS),
		    .offset = random_below(random, (BYTES - length) / DISK_SECTOR + 1) * DISK_SECTOR,
		    .length = length,
		    .data = memory,
		    .buffer = key,
		};
		disk_submit(queue, &requests[i]);
	}
	while (count < DEPTH) {
		count += disk_poll(queue, done + count, DEPTH - count);
		if (count < DEPTH)
			disk_arm(queue);
	}
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

int main(void)
{
	struct store *store;
	struct disk *disk = NULL;
	struct disk_queue *warm, *queue;
	struct random_state random;
	struct disk_stats stats;
	unsigned long before;
	long faulted;

	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	random_seed(&random, 1);
	store_open_memory(PAGES, &store);
	store_register(store, memory, BYTES, &key);
	disk_open(store, BYTES, &disk);
	/* Opens one queue first, because the first use of the code and of the store's pages causes page faults. */
	disk_queue_open(disk, DEPTH, &warm);
	disk_over_do(warm, DISK_WRITE, 0, BYTES, memory, key);
	for (unsigned i = 0; i < 20; i++)
		round_of(warm, &random);
	before = allocations;
	disk_queue_open(disk, DEPTH, &queue);
	ok(allocations > before && mutexes > 0, "the wrappers see that opening a queue allocates and locks");
	allocations = mutexes = calls = 0;
	faulted = faults();
	for (unsigned i = 0; i < ROUNDS; i++)
		round_of(queue, &random);
	faulted = faults() - faulted;
	ok(!allocations, "%u requests allocate nothing", ROUNDS * DEPTH);
	ok(!mutexes, "requests take no mutex");
	ok(!calls, "requests read and write no eventfd (%lu calls)", calls);
	if (SANITIZED)
		tap_skip("requests cause no page fault", "sanitizers cause page faults of their own");
	else
		ok(!faulted, "requests cause no page fault (%ld)", faulted);
	disk_get_stats(disk, &stats);
	ok(stats.waited > 0 && !stats.errors[DISK_WRITE], "requests that wait for pages (%llu) succeed",
	   (unsigned long long)stats.waited);
	disk_queue_close(queue);
	disk_queue_close(warm);
	disk_close(disk);
	store_close(store);
	munmap(memory, BYTES);
	return tap_done();
}
