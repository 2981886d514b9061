/*
 * victim_backup FIFO: fills memory, waits until all far pages are on the backup, and prints "ready". Waits for a byte
 * from FIFO, which means that donors are dead. Then reads all memory, fills it again, reads it again and prints how
 * many pages are wrong.
 */
#include "pager/counters.h"
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <sys/mman.h>

/* Returns the counters of this process, or NULL if it has no far memory. */
static const volatile struct pager_counters *own_counters(void)
{
	const char *path = getenv("FARPAGE_REPORT");
	int fd = path ? open(path, O_RDONLY) : -1;
	const struct report *report = mmap(NULL, sizeof *report, PROT_READ, MAP_SHARED, fd, 0);

	for (unsigned i = 0; report != MAP_FAILED && i < REPORT_SLOTS; i++)
		if (report->slots[i].pid == getpid())
			return &report->slots[i].counters;
	return NULL;
}

static size_t check(char *memory, size_t size, unsigned seed)
{
	size_t bad = 0;

	/* Makes the compiler read the memory in each call, although nothing writes to it in between. */
	__asm__ volatile("" ::: "memory");
	for (size_t at = 0; at < size; at += PAGE)
		bad += wrong(memory + at, PAGE, seed, at) != 0;
	return bad;
}

int main(int argc, char **argv)
{
	size_t size = victim_size(), bad = 0;
	char *memory = map_memory(size), byte;
	const volatile struct pager_counters *counters;
	int fd;

	fill(memory, size, 1);
	counters = own_counters();
	if (!counters || !counters->far_pages)
		return 2;
	/* Page faults make farpage update its counters. Pages that were only read are not written again. */
	do
		bad += check(memory, size, 1);
	while (counters->backup_behind);
	hide_environment();
	printf("ready\n");
	fflush(stdout);
	if (argc < 2 || (fd = open(argv[1], O_RDONLY)) < 0 || read(fd, &byte, 1) != 1)
		return 1;
	bad += check(memory, size, 1) + check(memory, size, 1);
	fill(memory, size, 2);
	bad += check(memory, size, 2);
	printf("%zu pages are wrong\n", bad);
	return 0;
}
