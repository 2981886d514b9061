/*
 * A program whose library (other_malloc.c) has a malloc of its own. The linker finds farpage's malloc first.
 */
#include "tests/func/preload/victim.h"

#include <malloc.h>
#include <string.h>

void *other_new(size_t size);
void other_delete(void *block);
unsigned other_freed(void);

#define BLOCKS 1000u

int main(void)
{
	char *blocks[BLOCKS], *others[BLOCKS];
	size_t size = victim_size();
	unsigned different = 0;
	char *memory = malloc(size);

	fill(memory, size, 1);
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(100);
		others[i] = other_new(100);
		memset(blocks[i], (int)i, 100);
		memset(others[i], (int)~i, 100);
	}
	ok(malloc_usable_size(others[0]) == 100, "the library tells the size of its own block");
	others[0] = realloc(others[0], 200);
	ok(other_freed() == 1 && others[0][99] == (char)~0u, "realloc() of the library's block goes to the library");
	for (unsigned i = 0; i < BLOCKS; i++)
		different += blocks[i][99] != (char)i || others[i][99] != (char)~i;
	ok(different == 0, "blocks of both allocators keep their contents");
	for (unsigned i = 0; i < BLOCKS; i++) {
		other_delete(others[i]);
		free(blocks[i]);
	}
	ok(other_freed() == BLOCKS + 1, "free() gives the library's blocks back to the library, and no others (%u)",
	   other_freed());
	ok(wrong(memory, size, 1, 0) == 0, "memory of malloc() keeps its contents");
	free(memory);
	return tap_done();
}
