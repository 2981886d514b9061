/*
 * far_piece: a stretch of a request's pages in one chunk, on its way to or from donors or the backup. See far_queue.h.
 *
 *     FREE --> UNDER_WAY --read takes too long--> OVERDUE --read elsewhere, too--> HEDGED --first good answer--> LATE
 *
 * Every state but FREE ends in FREE, once no answer is to come any more. piece_moves[] in far_piece.c lists the legal
 * moves.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_PIECE_H
#define CLIENT_FAR_PIECE_H

#include "client/io/far_queue.h"

/* One of the two reads of a piece that may be hedged. */
struct far_try {
	uint64_t posted_at; /* ns */
	uint8_t *buffer;    /* of the queue; NULL if there is no read, or it was answered */
};

enum far_piece_state {
	PIECE_FREE,
	PIECE_UNDER_WAY,
	PIECE_OVERDUE, /* a read of one donor, which takes too long; not hedged any more */
	PIECE_HEDGED,  /* a read of two donors; its chunk counts one page more, so that it is not given back */
	PIECE_LATE,    /* HEDGED, and its request has the pages; one donor has not answered yet */
	PIECE_STATES
};
const char *far_piece_state_name(enum far_piece_state state);

struct far_piece {
	enum far_piece_state state;
	bool cut_off; /* a connection ended; the operation may or may not have been carried out */
	uint16_t request;
	uint16_t donor; /* of a read: the first donor asked */
	uint32_t count;
	uint32_t epoch;
	uint64_t page;
	uint64_t chunk;
	uint8_t *data;
	uint8_t *sealed;         /* of a write: its pages in the queue's buffer, or NULL; far_sealed.h */
	uint64_t left;           /* donors that have not answered, one bit each */
	struct far_try tries[2]; /* of a read that may be hedged: of `donor`, and of another one; far_hedge.h */
};

/* Makes a piece of the request's next @count pages, and publishes it. @view is NULL if the piece uses no slot. Returns
   FAR_GOES_OUT if this is done, FAR_ANEW if the chunk's slots are no longer those of @view, and FAR_KEPT_OUT if a
   window is open. The queue is woken when that window is closed. A piece must be free. */
enum far_way { FAR_GOES_OUT, FAR_ANEW, FAR_KEPT_OUT };
enum far_way far_piece_publish(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, uint16_t *ret_piece);
/* Does the same, but publishes nothing: for a piece that uses no slot, or that others know of. Returns the piece. */
uint16_t far_piece_start(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk, uint32_t epoch);
/* Moves the piece between the states of a read that is hedged. */
void far_piece_move(struct far_queue *queue, uint16_t piece, enum far_piece_state to);
/* Drops @pages of the count that was held for the piece's pages. */
void far_piece_drop(struct far_queue *queue, const struct far_piece *piece, uint32_t pages);
/* Marks the write of a piece that was cut off to be carried out anew. The piece must not have ended yet. */
void far_piece_redo(struct far_queue *queue, const struct far_piece *piece);
/* Frees a piece that has no operation under way. */
void far_piece_end(struct far_queue *queue, uint16_t piece);

#endif
