/*
 * far_buffer: memory of one queue for pages on their way to or from donors. far_buffer_open() registers the memory
 * with the fabric, and populates it.
 *
 * A forked child does not inherit this memory, so a fork causes no page faults for the thread that uses it.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_BUFFER_H
#define CLIENT_FAR_BUFFER_H

#include "client/far_store.h"

/* Returns 0, -ENOMEM, or an error of fabric_register(). */
int far_buffer_open(struct far *far, size_t bytes, uint8_t **ret_memory, struct fabric_region **ret_region);
/* Frees the memory. All connections that used it must have ended. */
void far_buffer_close(uint8_t *memory, size_t bytes, struct fabric_region *region);

#endif
