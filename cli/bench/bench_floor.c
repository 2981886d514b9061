/* bench_floor: measures the floor described in bench_fault.h, a userfaultfd fault without farpage. */
#include "cli/bench/bench_fault.h"
#include "cli/bench/bench_interrupt.h"
#include "common/clock.h"
#include "common/log.h"
#include "pager/uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define PAGES 2048u
#define ROUNDS 8u
#define STEP 797u /* a prime, so that every page is visited, and never two neighbours in a row */

struct floor {
	int uffd;
	char *memory; /* PAGES pages and one more; a write to the last page ends the answering thread */
	struct histogram latencies;
};

static void *floor_answer(void *argument)
{
	static char contents[4096] = {1};
	struct floor *floor = argument;
	struct uffd_msg message;

	while (read(floor->uffd, &message, sizeof message) == (ssize_t)sizeof message) {
		struct uffdio_copy copy = {
		    .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (uintptr_t)contents, .len = PAGE};
		struct uffdio_range all = {(uintptr_t)floor->memory, (PAGES + 1) * PAGE};

		if (ioctl(floor->uffd, UFFDIO_COPY, &copy)) {
			ioctl(floor->uffd, UFFDIO_UNREGISTER,
			      &all); /* the touching thread then faults in ordinary memory */
			return argument;
		}
		if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE)
			return NULL;
	}
	return argument;
}

static void floor_touch(struct floor *floor)
{
	for (unsigned round = 0; round < ROUNDS && !bench_interrupted(); round++) {
		madvise(floor->memory, PAGES * PAGE, MADV_DONTNEED);
		for (unsigned i = 0; i < PAGES; i++) {
			const volatile char *page = floor->memory + (size_t)i * STEP % PAGES * PAGE;
			uint64_t start = clock_now();

			(void)*page;
			histogram_record(&floor->latencies, clock_now() - start);
		}
	}
	*(volatile char *)(floor->memory + PAGES * PAGE) = 1;
}

/* Runs both threads on the caller's processor. */
static int floor_run(struct floor *floor)
{
	cpu_set_t before, here;
	pthread_t thread;
	void *failed = NULL;
	int cpu = sched_getcpu(), error;

	sched_getaffinity(0, sizeof before, &before);
	CPU_ZERO(&here);
	CPU_SET(cpu < 0 ? 0 : cpu, &here);
	sched_setaffinity(0, sizeof here, &here);
	error = -pthread_create(&thread, NULL, floor_answer, floor);
	if (!error) {
		floor_touch(floor);
		pthread_join(thread, &failed);
	}
	sched_setaffinity(0, sizeof before, &before);
	return failed ? -EIO : error;
}

static int floor_measure(struct floor *floor)
{
	size_t length = (PAGES + 1) * PAGE;
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int error = 0;

	if (memory == MAP_FAILED)
		return -errno;
	madvise(memory, length, MADV_NOHUGEPAGE);
	floor->memory = memory;
	range.range = (struct uffdio_range){(uintptr_t)memory, length};
	if (ioctl(floor->uffd, UFFDIO_API, &api) || ioctl(floor->uffd, UFFDIO_REGISTER, &range))
		error = -errno;
	if (!error)
		error = floor_run(floor);
	munmap(memory, length);
	return error;
}

int bench_fault_floor(struct bench_results *results)
{
	static struct floor floor; /* too large for the stack */
	int error = 0;

	memset(&floor, 0, sizeof floor);
	bench_progress_show("userfaultfd");
	floor.uffd = uffd_new(0);
	if (uffd_lacks(floor.uffd)) {
		results->userfaultfd.skipped = uffd_lacks(floor.uffd);
	} else if (floor.uffd < 0) {
		error = floor.uffd;
	} else {
		error = floor_measure(&floor);
		close(floor.uffd);
	}
	bench_progress_erase();
	if (error)
		log_error("cannot measure userfaultfd: %s", strerror(-error));
	else if (bench_interrupted())
		return -EINTR;
	else
		results->userfaultfd.latency = bench_latency_of(&floor.latencies);
	return error;
}
