/*
 * victim_death FIFO: fills memory, prints "ready", waits for a byte from FIFO, and reads all memory twice. Dies of
 * SIGBUS at a page that a dead donor had. Prints a line for each wrong page.
 */
#include "tests/func/preload/victim.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
	size_t size = victim_size();
	char *memory = map_memory(size), byte;
	int fd;

	fill(memory, size, 1);
	hide_environment();
	printf("ready\n");
	fflush(stdout);
	if (argc < 2 || (fd = open(argv[1], O_RDONLY)) < 0 || read(fd, &byte, 1) != 1)
		return 1;
	for (unsigned round = 0; round < 2; round++)
		for (size_t at = 0; at < size; at += PAGE)
			if (wrong(memory + at, PAGE, 1, at)) {
				printf("wrong page at %zu\n", at);
				fflush(stdout);
			}
	printf("all of it was there\n");
	return 0;
}
