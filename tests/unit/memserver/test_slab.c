/* slab: memory is zeroed and populated, and goes back to the kernel. The machine keeps its reserve. */
#include "memserver/slab.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define PAGE 4096u

static struct fabric_domain *domain; /* the domain of the only owner */

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

static void memory_is_zero_populated_and_given_back(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answer;
	unsigned char present;
	char *memory;

	ok(!slab_answer(worker, &answer), "a worker has no answer before an order");
	slab_prepare(worker, 1, domain);
	answer = answer_wait(worker);
	memory = answer.memory;
	ok(answer.kind == SLAB_PREPARE && answer.slab == 1 && !answer.status && memory,
	   "a slab that is prepared has memory");
	ok((uintptr_t)memory % (2 << 20) == 0, "the memory of a slab is aligned to huge pages");
	ok(is_populated(memory), "the memory of a slab is populated");
	ok(answer.region, "the memory of a slab is registered");
	ok(is_zero(memory), "the memory of a slab is zero");
	memset(memory, 0x5a, BYTES);
	slab_clear(worker, 1);
	answer = answer_wait(worker);
	ok(answer.kind == SLAB_CLEAR && answer.slab == 1 && !answer.memory, "a slab that is cleared has no memory");
	ok(mincore(memory, PAGE, &present) < 0 && errno == ENOMEM, "the memory of a cleared slab is unmapped");
	slab_prepare(worker, 1, domain);
	answer = answer_wait(worker);
	ok(answer.memory && is_zero(answer.memory), "the memory of a slab is zero for its next owner");
	slab_close(worker);
}

static void orders_are_answered_in_the_order_given(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answers[3];
	unsigned mapped = 0;
	unsigned char present;
	struct pollfd fd = {.fd = slab_fd(worker), .events = POLLIN};

	for (uint32_t i = 0; i < 3; i++)
		slab_prepare(worker, i, domain);
	for (uint32_t i = 0; i < 3; i++)
		answers[i] = answer_wait(worker);
	ok(answers[0].slab == 0 && answers[1].slab == 1 && answers[2].slab == 2,
	   "orders are answered in the order given");
	ok(answers[0].memory != answers[1].memory && answers[1].memory != answers[2].memory,
	   "each slab has memory of its own");
	ok(poll(&fd, 1, 0) == 0, "the worker's descriptor is not readable once all answers are taken");
	for (uint32_t i = 0; i < 3; i++)
		slab_clear(worker, i);
	slab_close(worker);
	for (uint32_t i = 0; i < 3; i++)
		mapped += !mincore(answers[i].memory, PAGE, &present);
	ok(!mapped, "a worker that is closed carries out its pending orders");
	slab_close(NULL);
}

static void memory_below_the_reserve_is_refused(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.reserve = UINT64_MAX / 2});
	struct slab_answer answer;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	ok(answer.status == -ENOMEM && !answer.memory, "memory below the reserve is refused with -ENOMEM");
	slab_prepare(worker, 0, domain);
	ok(answer_wait(worker).status == -ENOMEM, "memory below the reserve is refused again");
	slab_close(worker);
}

static void memory_may_be_locked(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.lock = true});
	struct slab_answer answer;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	if (answer.status == -EPERM || answer.status == -ENOMEM)
		tap_skip("a slab may have locked memory", "no right to lock 4 MiB here");
	else
		ok(!answer.status && is_zero(answer.memory), "a slab may have locked memory");
	slab_close(worker);
}

/* --- The worker's calls, watched -------------------------------------------------------------------------- */

static sem_t began, may_go_on;
static _Atomic bool held;
static _Atomic unsigned hugetlb_flags; /* flags of the last request for hugetlb pages */

/* Replaces memfd_create(), with which the worker makes its files. */
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (flags & MFD_HUGETLB)
		hugetlb_flags = flags;
	return __real_memfd_create(name, flags);
}

/* Replaces mmap(), which is mmap64() with 64-bit offsets. The worker maps its memory with this call. */
void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (atomic_exchange(&held, false)) {
		sem_post(&began);
		sem_wait(&may_go_on);
	}
	return __real_mmap64(address, length, protection, flags, fd, offset);
}

static void huge_slabs_ask_for_pages_of_2_mib(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){.huge = true});
	struct slab_answer answer;
	unsigned char present;

	slab_prepare(worker, 0, domain);
	answer = answer_wait(worker);
	ok(!answer.status && answer.memory && is_zero(answer.memory),
	   "a slab of huge pages has zero memory, with or without hugetlb pages");
	ok(hugetlb_flags >> MAP_HUGE_SHIFT == 21,
	   "hugetlb pages of 2M are asked for, whatever the kernel's default is");
	slab_clear(worker, 0);
	answer_wait(worker);
	ok(mincore(answer.memory, PAGE, &present) < 0 && errno == ENOMEM,
	   "the memory of a cleared slab of huge pages is unmapped");
	slab_close(worker);
}

/* --- Memory of the program before ------------------------------------------------------------------------- */

/* Returns copies of a worker's files, as execve(2) would keep them. */
static struct slab_files files_keep(const struct slab_worker *worker)
{
	const struct slab_files files = slab_files(worker);

	return (struct slab_files){dup(files.plain), files.huge < 0 ? -1 : dup(files.huge)};
}

/* Returns true if the pages of a slab in the file hold @byte. */
static bool file_has(int fd, uint32_t slab, char byte)
{
	char at[PAGE];

	return pread(fd, at, PAGE, (off_t)BYTES * slab) == PAGE && at[0] == byte && !memcmp(at, at + 1, PAGE - 1);
}

static void the_next_worker_adopts_memory(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0}), *next;
	struct slab_files files = files_keep(worker), kept = files_keep(worker);
	struct fabric_region *region = NULL;
	char *memory[3];

	for (uint32_t i = 0; i < 3; i++) {
		slab_prepare(worker, i, domain);
		memory[i] = answer_wait(worker).memory;
		memset(memory[i], 'a' + (int)i, BYTES);
	}
	next = worker_open((struct slab_config){.inherited = &files});
	ok(slab_adopt(next, 1, slab_is_huge(worker, 1), domain, &region) == 0 && region,
	   "the next worker adopts a slab of the worker before");
	slab_discard_rest(next);
	ok(file_has(kept.plain, 1, 'b'), "an adopted slab keeps its contents");
	ok(file_has(kept.plain, 0, 0) && file_has(kept.plain, 2, 0), "slabs that are not adopted are zero");
	slab_clear(next, 1);
	answer_wait(next);
	ok(file_has(kept.plain, 1, 0), "an adopted slab is zero once it is cleared");
	slab_prepare(next, 1, domain);
	ok(is_zero(answer_wait(next).memory), "a slab that was adopted and cleared can be prepared again");
	slab_close(next);
	slab_close(worker);
	close(kept.plain);
}

static void a_worker_with_fewer_slabs_discards_the_others(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0}), *next;
	struct slab_files files = files_keep(worker), kept = files_keep(worker);
	const struct slab_config fewer = {.slabs = 1, .bytes = BYTES, .inherited = &files};

	slab_prepare(worker, 2, domain);
	memset(answer_wait(worker).memory, 'c', BYTES);
	if (slab_open(&fewer, &next) < 0)
		abort();
	slab_discard_rest(next);
	ok(file_has(kept.plain, 2, 0), "memory beyond the last slab of the next worker is discarded");
	slab_close(next);
	slab_close(worker);
	close(kept.plain);
}

/* --- Abandoned orders ------------------------------------------------------------------------------------- */

/* Stops the worker inside its work on slab 0 until sem_post(&may_go_on), so the caller can give more orders. */
static void worker_hold(struct slab_worker *worker)
{
	held = true;
	slab_prepare(worker, 0, domain);
	sem_wait(&began);
}

static void abandoned_orders_are_not_begun(void)
{
	struct slab_worker *worker = worker_open((struct slab_config){0});
	struct slab_answer answers[3];

	slab_abandon(worker, 1); /* slab 1 has no order yet, so this has no effect */
	worker_hold(worker);
	slab_prepare(worker, 1, domain);
	slab_prepare(worker, 2, domain);
	slab_abandon(worker, 0);
	slab_abandon(worker, 1);
	sem_post(&may_go_on);
	for (unsigned i = 0; i < 3; i++)
		answers[i] = answer_wait(worker);
	ok(!answers[0].status && answers[0].slab == 0, "an abandoned order that has begun is finished");
	ok(answers[1].status == -ECANCELED && answers[1].slab == 1 && !answers[1].memory && !answers[1].region,
	   "an abandoned order that has not begun is answered with -ECANCELED");
	ok(!answers[2].status && answers[2].slab == 2, "an order behind an abandoned one is carried out");
	slab_prepare(worker, 1, domain);
	ok(!answer_wait(worker).status, "the next order for a slab is carried out after an abandoned one");
	slab_clear(worker, 0);
	slab_abandon(worker, 0);
	ok(!answer_wait(worker).status, "an order to clear a slab cannot be abandoned");
	slab_close(worker);
}

static void clearing_goes_before_preparing(void)
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
	   "an order to clear goes before an earlier order to prepare");
	ok(answers[2].slab == 2 && !answers[2].status && answers[2].memory,
	   "an order to prepare is carried out after an order to clear");
	slab_close(worker);
}

int main(void)
{
	if (fabric_domain_open(&domain) < 0)
		abort();
	memory_is_zero_populated_and_given_back();
	orders_are_answered_in_the_order_given();
	memory_below_the_reserve_is_refused();
	huge_slabs_ask_for_pages_of_2_mib();
	memory_may_be_locked();
	the_next_worker_adopts_memory();
	a_worker_with_fewer_slabs_discards_the_others();
	sem_init(&began, 0, 0);
	sem_init(&may_go_on, 0, 0);
	abandoned_orders_are_not_begun();
	clearing_goes_before_preparing();
	sem_destroy(&began);
	sem_destroy(&may_go_on);
	fabric_domain_close(domain); /* asserts that no region is left in it */
	return tap_done();
}
