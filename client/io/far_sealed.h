/*
 * far_sealed: prepares a queue's pages before they are sent, and checks them after they were received. The pages
 * have checksums (integrity.h), or are sealed (seal.h).
 *
 * Theory of operation. far_sealed_prepare() seals the pages of a write into a buffer of the queue, because the
 * caller's memory must not change. The sealed pages go from there to all replicas. The buffer is registered when
 * the queue is opened, and has SEALED_PAGES pages. A write that finds no room there waits, as it waits for room on
 * a connection. A long write becomes pieces of at most SEALED_RUN pages, so that one piece is sealed while others
 * are in flight. A piece keeps its part of the buffer until all its operations are answered, or their connections
 * have ended. A write that is carried out anew is sealed again, with new numbers.
 *
 * far_sealed_verify() opens a received page. The opened page is in the caller's memory, even if the page was received
 * in a buffer of far_hedge.h. The rebuild thread's queue copies sealed pages without opening them. This queue only
 * checks the pages, so it needs no buffer.
 *
 * Threads: the queue's. Any thread may call far_sealed_same(). No allocation after far_sealed_open().
 */
#ifndef CLIENT_FAR_SEALED_H
#define CLIENT_FAR_SEALED_H

#include <stdbool.h>
#include <stdint.h>

#define SEALED_PAGES 128u
#define SEALED_RUN 32u
_Static_assert(SEALED_RUN <= 64 && SEALED_PAGES % 64 == 0, "a run is of one word");

struct fabric_region;
struct far;
struct far_piece;
struct far_queue;
struct seal;

struct far_sealed {
	struct seal *seal; /* NULL if pages are not sealed */
	uint8_t *memory;   /* a buffer of SEALED_PAGES pages, or NULL for none */
	struct fabric_region *region;
	uint64_t idle[SEALED_PAGES / 64]; /* free pages of `memory`, one bit each */
};

/* Prepares the queue of a store whose pages are sealed. Returns 0, -ENOMEM, or an error of fabric_register(). */
int far_sealed_open(struct far_queue *queue);
/* Frees the memory of far_sealed_open(). Does nothing if there is none. All connections must have ended. */
void far_sealed_close(struct far_queue *queue);
/* Frees the buffer of the rebuild thread's queue, which seals no page. */
void far_sealed_direct(struct far_queue *queue);
uint64_t far_sealed_memory(const struct far_queue *queue);

/* Returns how many of a write's @count pages can be one piece, or 0 if the buffer has no room now. Returns @count
   if pages are not sealed. */
uint32_t far_sealed_room(const struct far_queue *queue, uint32_t count);
/* Prepares the pages of a write that is about to be sent: stores their checksums (integrity.h), or seals them into
   the buffer. There must be room for them. */
void far_sealed_prepare(struct far_queue *queue, uint16_t piece);
/* Frees the piece's part of the buffer. No operation of the piece may be in flight. */
void far_sealed_end(struct far_queue *queue, uint16_t piece);

/* Checks @data, which was received for page @nth of the piece. Returns false if the page was last written with
   other contents. If pages are sealed, opens the page into the caller's memory, except on the rebuild thread's
   queue. */
bool far_sealed_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data);

/* Open and close far->sealers, which store_same() needs if pages are sealed. far_sealers_open() returns 0 or
   -ENOMEM. far_sealers_close() does nothing if they are not open. */
int far_sealers_open(struct far *far);
void far_sealers_close(struct far *far);
bool far_sealed_same(struct far *far, uint64_t page, const void *data);

#endif
