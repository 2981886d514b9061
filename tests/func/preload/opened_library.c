/* A library that is opened with RTLD_DEEPBIND: what libc has allocated for it, and for the program, it frees itself. */
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
