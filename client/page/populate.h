/*
 * populate: makes memory present before it is needed.
 *
 * Theory of operation. A thread that carries out I/O must take no page fault. Under memory pressure, the fault might
 * wait for the very pages that this thread should write. Another thread therefore populates the memory in advance. If
 * a file cannot grow, populating returns an error, while a later access would raise SIGBUS.
 *
 * Threads: any. Memory that is in use keeps its contents.
 */
#ifndef CLIENT_POPULATE_H
#define CLIENT_POPULATE_H

#include <stddef.h>

/* Makes [@base, @base + @length) present and writable. Returns 0, or -ENOMEM if there is no memory or the file
   cannot grow. */
int populate_range(void *base, size_t length);

#endif
