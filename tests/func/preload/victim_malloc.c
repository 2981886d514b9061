/*
 * victim_malloc ["small"]: a program that brings its own malloc, as some databases and browsers do. It maps much memory
 * unless it is told "small".
 */
#include "tests/func/preload/victim.h"

/* Libraries use this malloc, too. */
#pragma GCC visibility push(default)

void *malloc(size_t length)
{
	static char heap[1 << 20] __attribute__((aligned(16)));
	static size_t used;

	length = (length + 15) / 16 * 16;
	if (length > sizeof heap - used) {
		errno = ENOMEM;
		return NULL;
	}
	used += length;
	return heap + used - length;
}

void *calloc(size_t count, size_t length)
{
	return malloc(count * length);
}

void *realloc(void *block, size_t length)
{
	void *longer = malloc(length);

	return longer && block ? memmove(longer, block, length) : longer;
}

void free(void *block)
{
	(void)block;
}

#pragma GCC visibility pop

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "small") != 0) {
		size_t size = victim_size();
		char *memory = map_memory(size);

		fill(memory, size, 1);
		printf("%zu\n", wrong(memory, size, 1, 0));
	}
	puts("ran");
	return 0;
}
