/*
 * populate: makes memory present before it is needed.
 *
 * Theory of operation. A thread that carries out I/O must not take a page fault. Under memory pressure it might wait
 * for the very pages that it is asked to write. So another thread first populates the memory that the I/O thread will
 * touch. If the memory belongs to a file that cannot grow, this shows as an error here, not as a SIGBUS later.
 *
 * Threads: any. Memory that is in use keeps its contents.
 */
#ifndef CLIENT_POPULATE_H
#define CLIENT_POPULATE_H

#include <stddef.h>

/* Makes [@base, @base + @length) present and writable. Returns -ENOMEM if there is no memory, or no room in the
   file. */
int populate_range(void *base, size_t length);

#endif
