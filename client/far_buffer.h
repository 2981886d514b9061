/*
 * far_buffer: memory of a queue's own that donors' bytes come to or go out of: registered, and there from the
 * beginning.
 *
 * A forked child does not get it, so that a fork makes no page faults for the thread that uses it.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_BUFFER_H
#define CLIENT_FAR_BUFFER_H

#include "client/far_store.h"

/* -ENOMEM, or what fabric_register says. */
int far_buffer_open(struct far *far, size_t bytes, uint8_t **ret_memory, struct fabric_region **ret_region);
/* Connections have ended, or never used it. */
void far_buffer_close(uint8_t *memory, size_t bytes, struct fabric_region *region);

#endif
