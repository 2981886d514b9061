/*
 * far_sealed: prepares a queue's pages before they leave, and checks them when they come back. The pages have checksums
 * (integrity.h), or are sealed (seal.h).
 *
 * Theory of operation. The caller's buffer must stay unchanged. So a page is sealed into the queue's buffer, which is
 * registered when the queue is opened, and goes from there to all replicas. The buffer has SEALED_PAGES pages. A write
 * that finds no room in the buffer waits, as it waits for room in a connection. A write of many pages becomes pieces of
 * at most SEALED_RUN pages. Each is sealed while earlier ones are under way. A piece keeps its part of the buffer until
 * all its operations have been answered, or their connections have ended. A write that is carried out anew is sealed
 * anew, with new numbers.
 *
 * A page that was read is opened in place, or from a buffer of far_hedge.h into the caller's. The rebuild thread's
 * queue copies pages as they are. It opens them only to check them, and keeps no output, so it needs no buffer.
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

/* Sealing in one queue. */
struct far_sealed {
	struct seal *seal; /* NULL if pages are not sealed */
	uint8_t *memory;   /* SEALED_PAGES pages, or NULL for none */
	struct fabric_region *region;
	uint64_t idle[SEALED_PAGES / 64]; /* free pages of `memory`, one bit each */
};

/* Prepares the queue of a store whose pages are sealed. Returns 0, -ENOMEM, or an error of fabric_register(). */
int far_sealed_open(struct far_queue *queue);
/* Frees what far_sealed_open() has allocated, if it was called. All connections must have ended. */
void far_sealed_close(struct far_queue *queue);
/* Frees the buffer of the rebuild thread's queue, which seals nothing. */
void far_sealed_direct(struct far_queue *queue);
uint64_t far_sealed_memory(const struct far_queue *queue);

/* Returns how many of a write's @count pages can go out as one piece, or 0 if none can now. Returns @count if pages are
   not sealed. */
uint32_t far_sealed_room(const struct far_queue *queue, uint32_t count);
/* Prepares the pages of a write, which is about to go out: stores their checksums (integrity.h), or seals them into the
   buffer. There must be room for them. */
void far_sealed_prepare(struct far_queue *queue, uint16_t piece);
/* Frees the piece's part of the buffer. Nothing of the piece may be under way. */
void far_sealed_end(struct far_queue *queue, uint16_t piece);

/* Checks @data, which was received for page @nth of the piece. Returns false if the page was last written with other
   contents. If pages are sealed, opens the page into the caller's buffer, except on the rebuild thread's queue. */
bool far_sealed_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data);

/* Open and close far->sealers, which store_same() needs if pages are sealed. far_sealers_open() returns 0 or -ENOMEM.
   far_sealers_close() does nothing if there are no sealers. */
int far_sealers_open(struct far *far);
void far_sealers_close(struct far *far);
bool far_sealed_same(struct far *far, uint64_t page, const void *data);

#endif
