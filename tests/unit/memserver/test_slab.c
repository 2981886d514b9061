/* slab: memory comes zeroed and populated, goes back to the kernel, and is not had at the machine's expense. */
#include "memserver/slab.h"
#include "tests/tap.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define PAGE 4096u

static struct fabric_domain *domain; /* of the one owner there is */

static struct slab_worker *worker_open(struct slab_config config)
{
	struct slab_worker *worker = NULL;

	config.bytes = BYTES;
	config.slabs = 3;
	if (slab_open(&config, &worker) < 0)
		abort();
	return worker;
}

static struct slab_answer answer_wait(struct slab_worker *worker)
{
	struct pollfd fd = {.fd = slab_fd(worker), .events = POLLIN};
	struct slab_answer answer;

	while (!slab_answer(worker, &answer))
		if (poll(&fd, 1, 30000) != 1)
			abort();
	return answer;
}

static bool is_zero(const char *memory)
{
	for (size_t i = 0; i < BYTES; i++)
		if (memory[i])
			return false;
	return true;
}

static bool is_populated(void *memory)
{
	static unsigned char present[BYTES / PAGE];

	if (mincore(memory, BYTES, present) < 0)
		return false;
	for (size_t i = 0; i < BYTES / PAGE; i++)
		if (!(present[i] & 1))
			return false;
	return true;
}

static void test_life(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answer;
	unsigned char present;
	char *memory;

	ok(!slab_answer(worker, &answer), "no answer before an order");
	slab_prepare(worker, 1, domain);
	answer = answer_wait(worker);
	memory = answer.memory;
	ok(answer.kind == SLAB_PREPARE && answer.slab == 1 && !answer.status && memory, "memory is had");
	ok((uintptr_t)memory % (2 << 20) == 0, "aligned to huge pages");
	ok(is_populated(memory), "every page is there already");
	ok(answer.region, "and registered");
	ok(is_zero(memory), "and zero");
	memset(memory, 0x5a, BYTES);
	slab_clear(worker, 1);
	answer = answer_wait(worker);
	ok(answer.kind == SLAB_CLEAR && answer.slab == 1 && !answer.memory, "and goes");
	ok(mincore(memory, PAGE, &present) < 0 && errno == ENOMEM, "it is unmapped");
	slab_prepare(worker, 1, domain);
	answer = answer_wait(worker);
	ok(answer.memory && is_zero(answer.memory), "the next owner finds zeroes");
	slab_close(worker);
}

static void test_many(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answers[3];
	struct pollfd fd = {.fd = slab_fd(worker), .events = POLLIN};

	for (uint32_t i = 0; i < 3; i++)
		slab_prepare(worker, i, domain);
	for (uint32_t i = 0; i < 3; i++)
		answers[i] = answer_wait(worker);
	ok(answers[0].slab == 0 && answers[1].slab == 1 && answers[2].slab == 2, "answered in the order asked");
	ok(answers[0].memory != answers[1].memory && answers[1].memory != answers[2].memory, "each its own memory");
	ok(poll(&fd, 1, 0) == 0, "nothing more to read");
	for (uint32_t i = 0; i < 3; i++)
		slab_clear(worker, i);
	slab_close(worker);
	ok(true, "closing with orders out is no trouble");
	slab_close(NULL);
}

static void test_reserve(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.reserve = UINT64_MAX / 2});
	struct slab_answer answer;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	ok(answer.status == -ENOMEM && !answer.memory, "not below the reserve");
	slab_prepare(worker, 0, domain);
	ok(answer_wait(worker).status == -ENOMEM, "asked again: the same");
	slab_close(worker);
}

static void test_lock(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.lock = true});
	struct slab_answer answer;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	if (answer.status == -EPERM || answer.status == -ENOMEM)
		tap_skip("locked memory", "no right to lock 4 MiB here");
	else
		ok(!answer.status && is_zero(answer.memory), "locked memory");
	slab_close(worker);
}

/* --- The worker's calls, watched -------------------------------------------------------------------------- */

static sem_t began, may_go_on;
static _Atomic bool held;
static _Atomic int hugetlb_flags; /* of the last mapping of hugetlb pages that was asked for */

/* The worker gets its memory here; with 64-bit offsets mmap() is this one. */
void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (flags & MAP_HUGETLB)
		hugetlb_flags = flags;
	if (atomic_exchange(&held, false)) {
		sem_post(&began);
		sem_wait(&may_go_on);
	}
	return __real_mmap64(address, length, protection, flags, fd, offset);
}

static void test_huge(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.huge = true});
	struct slab_answer answer;
	unsigned char present;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	ok(!answer.status && answer.memory && is_zero(answer.memory), "hugetlb or not, memory is had");
	ok(hugetlb_flags >> MAP_HUGE_SHIFT == 21, "asked for in pages of 2M, whatever the kernel's default is");
	slab_clear(worker, 0);
	answer_wait(worker);
	ok(mincore(answer.memory, PAGE, &present) < 0 && errno == ENOMEM, "and goes");
	slab_close(worker);
}

/* --- Orders that nobody wants any more -------------------------------------------------------------------- */

/* The worker is in the midst of slab 0 until what is ordered next has been, and sem_post(&may_go_on). */
static void worker_hold(struct slab_worker *worker)
{
	held = true;
	slab_prepare(worker, 0, domain);
	sem_wait(&began);
}

static void test_abandon(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answers[3];

	slab_abandon(worker, 1); /* before the order: not that one */
	worker_hold(worker);
	slab_prepare(worker, 1, domain);
	slab_prepare(worker, 2, domain);
	slab_abandon(worker, 0);
	slab_abandon(worker, 1);
	sem_post(&may_go_on);
	for (unsigned i = 0; i < 3; i++)
		answers[i] = answer_wait(worker);
	ok(!answers[0].status && answers[0].slab == 0, "abandoned: what was begun is finished");
	ok(answers[1].status == -ECANCELED && answers[1].slab == 1 && !answers[1].memory && !answers[1].region,
	   "abandoned: what was not begun is not");
	ok(!answers[2].status && answers[2].slab == 2, "abandoned: what somebody waits for comes");
	slab_prepare(worker, 1, domain);
	ok(!answer_wait(worker).status, "abandoned: the next order of that slab is carried out");
	slab_clear(worker, 0);
	slab_abandon(worker, 0);
	ok(!answer_wait(worker).status, "abandoned: what is to be cleared is cleared");
	slab_close(worker);
}

static void test_order(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answers[3];

	slab_prepare(worker, 1, domain);
	answer_wait(worker);
	worker_hold(worker);
	slab_prepare(worker, 2, domain);
	slab_clear(worker, 1);
	sem_post(&may_go_on);
	for (unsigned i = 0; i < 3; i++)
		answers[i] = answer_wait(worker);
	ok(answers[0].slab == 0 && answers[1].slab == 1 && answers[1].kind == SLAB_CLEAR,
	   "order: what is to be cleared does not wait for what is to be prepared");
	ok(answers[2].slab == 2 && !answers[2].status && answers[2].memory, "order: which comes next");
	slab_close(worker);
}

int main(void)
{
	if (fabric_domain_open(&domain) < 0)
		abort();
	test_life();
	test_many();
	test_reserve();
	test_huge();
	test_lock();
	sem_init(&began, 0, 0);
	sem_init(&may_go_on, 0, 0);
	test_abandon();
	test_order();
	sem_destroy(&began);
	sem_destroy(&may_go_on);
	fabric_domain_close(domain); /* asserts that no region is left in it */
	return tap_done();
}
