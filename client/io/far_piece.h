/* far_piece: a stretch of a request's pages in one chunk, on its way to or from donors or the backup. See far_queue.h.
   Threads: the queue's. */
#ifndef CLIENT_FAR_PIECE_H
#define CLIENT_FAR_PIECE_H

#include "client/io/far_queue.h"

/* One of the two reads of a piece that may be hedged. */
struct far_try {
	uint64_t posted_at; /* ns */
	uint8_t *buffer;    /* of the queue; NULL if there is no read, or it was answered */
};

struct far_piece {
	uint64_t page;
	uint8_t *data;
	uint64_t chunk;
	uint32_t count;
	uint32_t epoch;
	uint16_t request;
	uint16_t donor;          /* of a read: the first donor asked */
	uint8_t *sealed;         /* of a write: its pages in the queue's buffer, or NULL; far_sealed.h */
	bool again;              /* a connection ended; the operation may or may not have been carried out */
	bool overdue;            /* found overdue; not to be hedged any more */
	bool late;               /* its request has the pages and has ended; an answer is still to come */
	bool held;               /* a hedge: its chunk counts one page more, so that it is not given back */
	uint64_t left;           /* donors that have not answered, one bit each */
	struct far_try tries[2]; /* of a read that may be hedged: of `donor`, and of another one; far_hedge.h */
};

/* Makes a piece of the request's next @count pages, and publishes it. @view is NULL if the piece uses no slot. Returns
   FAR_GOES_OUT if this is done, FAR_ANEW if the chunk's slots are no longer those of @view, and FAR_KEPT_OUT if a
   window is open. The queue is woken when that window is closed. A piece must be idle. */
enum far_way { FAR_GOES_OUT, FAR_ANEW, FAR_KEPT_OUT };
enum far_way far_piece_publish(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, uint16_t *ret_piece);
/* Does the same, but publishes nothing: for a piece that uses no slot, or that others know of. Returns the piece. */
uint16_t far_piece_start(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk, uint32_t epoch);
/* Drops @pages of the count that was held for the piece's pages. */
void far_piece_drop(struct far_queue *queue, const struct far_piece *piece, uint32_t pages);
/* Marks the write of a piece that was cut off to be carried out anew. The piece must not have ended yet. */
void far_piece_redo(struct far_queue *queue, const struct far_piece *piece);
/* Frees a piece that has no operation under way. */
void far_piece_end(struct far_queue *queue, uint16_t piece);

#endif
