/*
 * The program replaces the first instructions of mmap, munmap, madvise and mprotect by a jump to its own code, as UCX
 * does in MPI programs. This code takes a lock that the program's threads hold while they touch far pages. So farpage's
 * threads must not call these functions.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <sys/syscall.h>

#define PATCH_BYTES 13
#define ROUNDS 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned calls;

static long call(long number, void *address, size_t length, long third)
{
	pthread_mutex_lock(&lock);
	calls++;
	pthread_mutex_unlock(&lock);
	return number == SYS_mmap ? syscall(number, address, length, third, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				  : syscall(number, address, length, third);
}

static void *patched_mmap(void *address, size_t length, int protection)
{
	return (void *)call(SYS_mmap, address, length, protection);
}

static int patched_munmap(void *address, size_t length)
{
	return (int)call(SYS_munmap, address, length, 0);
}

static int patched_madvise(void *address, size_t length, int advice)
{
	return (int)call(SYS_madvise, address, length, advice);
}

static int patched_mprotect(void *address, size_t length, int protection)
{
	return (int)call(SYS_mprotect, address, length, protection);
}

/* Writes instructions of x86-64: movabs $target, %r11; jmp *%r11 */
static bool patch(void *function, void *target)
{
	const unsigned char code[PATCH_BYTES] = {0x49, 0xbb, [10] = 0x41, 0xff, 0xe3};
	char *page = (char *)((uintptr_t)function & ~(uintptr_t)(PAGE - 1));

	if (syscall(SYS_mprotect, page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		return false;
	memcpy(function, code, PATCH_BYTES);
	memcpy((char *)function + 2, &target, sizeof target);
	return syscall(SYS_mprotect, page, 2 * PAGE, PROT_READ | PROT_EXEC) == 0;
}

int main(void)
{
	size_t size = victim_size(), bad = 0;
	char *memory = map_memory(size);

	alarm(100); /* ends a test that hangs */
	fill(memory, size / 2, 1);
	ok(patch((void *)mmap, (void *)patched_mmap) && patch((void *)munmap, (void *)patched_munmap) &&
	       patch((void *)madvise, (void *)patched_madvise) && patch((void *)mprotect, (void *)patched_mprotect),
	   "the program patches the functions for memory");
	ok(madvise(memory, PAGE, MADV_WILLNEED) == 0 && calls == 1, "the program's calls use its own code");
	pthread_mutex_lock(&lock);
	for (unsigned round = 0; round < ROUNDS; round++) {
		fill(memory, size, round);
		bad += wrong(memory, size, round, 0);
	}
	pthread_mutex_unlock(&lock);
	ok(bad == 0, "every page has the contents last written (%zu do not)", bad);
	ok(calls == 1, "nobody else uses the program's code (%u calls)", calls);
	return tap_done();
}
