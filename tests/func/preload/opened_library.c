/*
 * A library that the program opens with RTLD_DEEPBIND. It frees blocks that libc allocated for it or for the program.
 */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

char *library_copy(const char *text);
void library_free(char *text);

char *library_copy(const char *text)
{
	free(strdup(text));
	return strdup(text);
}

void library_free(char *text)
{
	free(text);
}

#pragma GCC visibility pop
