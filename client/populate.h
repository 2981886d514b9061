/*
 * populate: memory that is there before anybody needs it.
 *
 * Theory of operation. A thread that carries out I/O must not take a page fault: under memory pressure it might wait
 * for the very pages that it is asked to write. So what it is going to touch is populated by another thread before.
 * Where the memory is a file's and the file cannot grow, that is an error here, not a SIGBUS later.
 *
 * Threads: any; memory in use keeps its contents.
 */
#ifndef CLIENT_POPULATE_H
#define CLIENT_POPULATE_H

#include <stddef.h>

/* Makes all of it present and writable. -ENOMEM: there is none, or no room in the file. */
int populate_range(void *base, size_t length);

#endif
