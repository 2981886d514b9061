/*
 * far_sealed: what a queue does where pages are sealed (seal.h): what it sends goes out of a buffer of its own.
 *
 * Theory of operation. The caller's buffer is his, so a page is sealed into the queue's buffer, registered when it is
 * opened, and is sent from there to all replicas. It has SEALED_PAGES pages; a write that finds no room there waits as
 * one that finds none in a connection does, and one of many pages becomes pieces of at most SEALED_RUN, which are
 * sealed while those before are under way. A piece has its part until all that was asked of it has been answered, or
 * its connection has ended. A write that is carried out anew is sealed anew, under new numbers.
 *
 * What was read is opened where it came, or from a buffer of far_hedge.h into the caller's. The rebuild thread's queue
 * copies pages as they are, and opens them nowhere to see whether they are right: it needs no buffer.
 *
 * Threads: the queue's; far_sealed_same(): any. No allocation after far_sealed_open().
 */
#ifndef CLIENT_FAR_SEALED_H
#define CLIENT_FAR_SEALED_H

#include "client/far_request.h"

#define SEALED_RUN 32u
_Static_assert(SEALED_RUN <= 64 && SEALED_PAGES % 64 == 0, "a run is of one word");

/* The store's pages are sealed: -ENOMEM, or what fabric_register says. */
int far_sealed_open(struct far_queue *queue);
/* Connections have ended. Takes one that was not opened. */
void far_sealed_close(struct far_queue *queue);
/* It does not write, but copies. */
void far_sealed_direct(struct far_queue *queue);
uint64_t far_sealed_memory(const struct far_queue *queue);

/* How many of the @count pages of a write can go out as one piece; 0: none, now. All, where pages are not sealed. */
uint32_t far_sealed_room(const struct far_queue *queue, uint32_t count);
/* The pages of a write, for which there is room, are about to go out. */
void far_sealed_begin(struct far_queue *queue, uint16_t index);
/* Nothing of it is under way any more. */
void far_sealed_end(struct far_queue *queue, uint16_t index);
/* Where its bytes are. */
uint8_t *far_sealed_data(const struct far_queue *queue, const struct far_piece *piece);

/* Whether @data, which was sent for page @nth of the piece, is what it is to read: then the caller has it. */
bool far_sealed_read(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data);

/* What store_same() needs: -ENOMEM. Takes one that was not opened. */
int far_sealers_open(struct far *far);
void far_sealers_close(struct far *far);
bool far_sealed_same(struct far *far, uint64_t page, const void *data);

#endif
