/* memory HOW: gets 48 MiB in one of many ways, fills it, reads it, and prints a sum of it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)48 << 20)

static void fill(unsigned char *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 4096)
		memset(memory + at, (int)(at / 4096 % 251), 4096);
}

static void look(const unsigned char *memory, const char *who)
{
	unsigned long sum = 0;

	for (size_t at = 0; at < SIZE; at += 512)
		sum += memory[at];
	printf("%s: %lu\n", who, sum);
	fflush(stdout);
}

static unsigned char *take(const char *how)
{
	const int open = PROT_READ | PROT_WRITE;

	if (!strcmp(how, "shared"))
		return mmap(NULL, SIZE, open, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(how, "call"))
		return (unsigned char *)syscall(SYS_mmap, NULL, SIZE, open, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(how, "reserve")) {
		unsigned char *memory =
		    mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		mprotect(memory, SIZE, open);
		return memory;
	}
	return malloc(SIZE);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	unsigned char *memory = take(how);

	fill(memory, strcmp(how, "service") ? SIZE : SIZE / 8);
	if (!strcmp(how, "fork") && !fork()) {
		look(memory, "child");
		return 0;
	}
	if (!strcmp(how, "daemon") || !strcmp(how, "service")) {
		if (fork())
			return 0;
		setsid();
		if (fork())
			return 0;
		usleep(500000);
	}
	while (wait(NULL) > 0)
		;
	if (!strcmp(how, "service"))
		fill(memory, SIZE);
	look(memory, how);
	return 0;
}
