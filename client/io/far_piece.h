/*
 * far_piece: a part of a request, in one chunk, on its way to or from donors or the backup. See far_queue.h.
 *
 *     FREE --> UNDER_WAY --read takes too long--> OVERDUE --second read sent--> HEDGED --first good answer--> LATE
 *
 * A piece in any other state becomes FREE when all its answers have arrived. piece_moves[] in far_piece.c lists the
 * legal moves.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_PIECE_H
#define CLIENT_FAR_PIECE_H

#include "client/io/far_queue.h"

/* One of the two reads of a piece that may be hedged. */
struct far_try {
	uint64_t posted_at; /* ns */
	uint8_t *buffer;    /* a buffer of the queue; NULL if this read was not sent, or is answered */
};

enum far_piece_state {
	PIECE_FREE,
	PIECE_UNDER_WAY,
	PIECE_OVERDUE, /* the answer to its read takes too long; a second read is sent when possible */
	PIECE_HEDGED,  /* read from two donors; the chunk's count is one higher, to keep its slabs */
	PIECE_LATE,    /* the request has the pages, but the slower of the two donors has not answered yet */
	PIECE_STATES
};

struct far_piece {
	enum far_piece_state state;
	bool cut_off; /* a connection ended, so nobody knows if the operation was carried out */
	uint16_t request;
	uint16_t donor; /* reads: the donor that was asked first */
	uint32_t count;
	uint32_t epoch;
	uint64_t page;
	uint64_t chunk;
	uint8_t *data;
	uint8_t *sealed;         /* writes: the sealed pages in the queue's buffer, or NULL; far_sealed.h */
	struct few_donors left;  /* donors that have not answered */
	struct far_try tries[2]; /* the reads from `donor` and from a second donor, if this piece may be hedged;
				    far_hedge.h */
};

/* Makes a piece of the request's next @count pages, and publishes it. @view is NULL if the piece uses no slot. At
   least one piece must be FREE. Returns FAR_GOES_OUT if the piece can be sent. Any other result means that no piece
   was made. FAR_ANEW: the chunk's slots are no longer those of @view. FAR_KEPT_OUT: the rebuild window has some of
   the pages, and the queue is woken when the window closes. */
enum far_way { FAR_GOES_OUT, FAR_ANEW, FAR_KEPT_OUT };
enum far_way far_piece_publish(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, uint16_t *ret_piece);
/* Makes a piece of the request's next @count pages without publishing it. Returns the piece. */
uint16_t far_piece_start(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk, uint32_t epoch);
/* Moves a read that may be hedged to its next state. */
void far_piece_move(struct far_queue *queue, uint16_t piece, enum far_piece_state to);
/* Subtracts @pages, which were counted for the piece, from the count of its chunk. */
void far_piece_drop(struct far_queue *queue, const struct far_piece *piece, uint32_t pages);
/* Marks the request of a write that was cut off, so that the write is carried out anew. The piece must not have
   ended. */
void far_piece_redo(struct far_queue *queue, const struct far_piece *piece);
/* Frees a piece. It must have no operation in flight. */
void far_piece_end(struct far_queue *queue, uint16_t piece);

#endif
