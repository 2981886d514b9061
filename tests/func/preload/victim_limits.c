/* A program limits its address space (RLIMIT_AS), as SPAdes and `ulimit -v` do. The limit bounds its memory as it does
   without farpage, and the program reads back what it has set. */
#undef _FILE_OFFSET_BITS /* with it, prlimit would be another name for prlimit64, and this file calls both */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define LIMIT ((rlim_t)1 << 30)

static bool has(struct rlimit limits, rlim_t soft, rlim_t hard)
{
	return limits.rlim_cur == soft && limits.rlim_max == hard;
}

static struct rlimit address_space(void)
{
	struct rlimit limits = {0};

	getrlimit(RLIMIT_AS, &limits);
	return limits;
}

static void *add_up(void *argument)
{
	return (void *)wrong(argument, victim_size(), 7, 0);
}

static bool thread_runs(void *memory)
{
	pthread_t thread;
	void *count = (void *)1;

	return !pthread_create(&thread, NULL, add_up, memory) && !pthread_join(thread, &count) && !count;
}

static void *try_map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool can_map(size_t length)
{
	void *memory = try_map(length);

	return memory != MAP_FAILED && munmap(memory, length) == 0;
}

static bool lacks_memory_for(size_t length)
{
	return try_map(length) == MAP_FAILED && errno == ENOMEM;
}

/* Maps blocks of 16 MiB until that fails. Returns their size in all. */
static size_t map_all(void)
{
	size_t count = 0;
	void *blocks[128];

	while (count < 128 && (blocks[count] = try_map(16 * MB)) != MAP_FAILED)
		count++;
	for (size_t i = 0; i < count; i++)
		munmap(blocks[i], 16 * MB);
	return count * 16 * MB;
}

static int shell_has_limit(void)
{
	char command[160];

	fflush(stdout);
	snprintf(command, sizeof command, "test $(ulimit -v) = %zu && head -c 50M /dev/zero | tail -c 30M | wc -c >&2",
		 (size_t)LIMIT / 1024);
	return system(command);
}

static int limit_in_child(void)
{
	struct rlimit lower = {LIMIT / 2, LIMIT / 2}, other = {LIMIT, LIMIT};

	if (setrlimit(RLIMIT_AS, &lower) || !has(address_space(), LIMIT / 2, LIMIT / 2))
		return 1;
	if (!setrlimit(RLIMIT_AS, &other) ? geteuid() : errno != EPERM)
		return 2;
	return lacks_memory_for(LIMIT) ? 0 : 3;
}

int main(void)
{
	size_t size = victim_size();
	char *memory = map_memory(size);
	struct rlimit at_first = address_space(), old = {0}, files = {0};
	struct rlimit64 old64 = {0};

	fill(memory, size, 7);
	ok(at_first.rlim_cur == RLIM_INFINITY, "at first there is no limit");
	struct rlimit limits = {LIMIT, at_first.rlim_max};
	ok(setrlimit(RLIMIT_AS, &limits) == 0, "the program limits its address space to 1 GiB");
	ok(has(address_space(), LIMIT, at_first.rlim_max), "getrlimit returns the limits as set");
	ok(!prlimit(0, RLIMIT_AS, NULL, &old) && has(old, LIMIT, at_first.rlim_max), "prlimit returns the same");
	ok(!prlimit64(getpid(), RLIMIT_AS, NULL, &old64) && old64.rlim_cur == LIMIT, "prlimit64 returns the same");
	ok(thread_runs(memory), "a thread starts under the limit, and reads all memory");
	ok(can_map(64 * MB), "64 MiB can be mapped");
	ok(lacks_memory_for(LIMIT), "as much as the limit cannot be mapped, because some is in use");
	void *block = malloc(LIMIT);
	ok(!block, "malloc of as much as the limit returns NULL");
	free(block);
	size_t most = map_all();
	ok(most >= LIMIT / 2 && most <= LIMIT - size, "blocks can be mapped up to the limit (%zu MiB)", most / MB);
	ok(mremap(memory, size, LIMIT, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM,
	   "a mapping cannot grow beyond the limit");
	ok(shell_has_limit() == 0, "a shell and the programs that it starts run under the same limit");
	ok(has(address_space(), LIMIT, at_first.rlim_max), "the limit is the same afterwards");
	ok(in_child(limit_in_child) == 0, "a forked child sets lower limits, and cannot map more");
	struct rlimit swapped = {LIMIT, LIMIT - 1};
	ok(setrlimit(RLIMIT_AS, &swapped) == -1 && errno == EINVAL, "a soft limit above the hard one is invalid");
	ok(!getrlimit(RLIMIT_NOFILE, &files) && !syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &old64) &&
	       files.rlim_cur == old64.rlim_cur && files.rlim_max == old64.rlim_max,
	   "other limits are the kernel's");
	limits.rlim_cur = limits.rlim_max;
	ok(setrlimit(RLIMIT_AS, &limits) == 0 && can_map(2 * LIMIT), "without the limit, 2 GiB can be mapped");
	ok(wrong(memory, size, 7, 0) == 0, "all memory keeps its contents");
	return tap_done();
}
