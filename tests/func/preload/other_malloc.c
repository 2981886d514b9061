/*
 * A library with a malloc of its own, as libjemalloc is for C++. It allocates under another name, and frees blocks by
 * calling free(), which the dynamic linker may bind to another library.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA ((size_t)2 << 20)

#pragma GCC visibility push(default)

void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

void *other_new(size_t size);
void other_delete(void *block);
unsigned other_freed(void);

static char *arena;
static size_t used;
static unsigned freed;

static int is_ours(const void *block)
{
	return arena && (size_t)((const char *)block - arena) < ARENA;
}

/* The word before a block holds its size. */
void *other_new(size_t size)
{
	if (!arena)
		arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *block = arena + used + 16;
	*(size_t *)(arena + used) = size;
	used += (size + 31) / 16 * 16;
	return block;
}

void other_delete(void *block)
{
	free(block);
}

unsigned other_freed(void)
{
	return freed;
}

void free(void *block)
{
	if (is_ours(block))
		freed++;
	else
		__libc_free(block);
}

void *realloc(void *block, size_t size)
{
	if (!is_ours(block))
		return __libc_realloc(block, size);
	size_t before = *(size_t *)((char *)block - 16);
	void *longer = other_new(size);
	memcpy(longer, block, before < size ? before : size);
	free(block);
	return longer;
}

size_t malloc_usable_size(void *block)
{
	return is_ours(block) ? *(size_t *)((char *)block - 16) : 0;
}
