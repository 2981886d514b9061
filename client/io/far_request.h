/* far_request: the state of requests and pieces. far_queue.c (connections, submit, poll), far_request.c (cuts requests
   into pieces) and far_piece.c (begins and ends pieces) share it. See far_queue.h. */
#ifndef CLIENT_FAR_REQUEST_H
#define CLIENT_FAR_REQUEST_H

#include "client/io/far_queue.h"
#include "client/io/latency.h"

/* The most operations that are posted together. */
#define FAR_LINK_BATCH 16u

/* A queue's connection to one donor. */
struct far_link {
	struct fabric_conn *conn; /* NULL for none */
	bool established;         /* established, and not known to have ended */
	uint32_t round;           /* the donor's round when `conn` was made */
	struct latency latency;   /* of reads, with replicas only */
	unsigned staged;
	struct fabric_op ops[FAR_LINK_BATCH];
};

/* A donor that a request waits for, or has waited for. Each donor is timed separately: a long wait for one donor must
   not shorten the wait for another. */
struct far_wait {
	unsigned donor;
	uint64_t since;  /* waiting for it: when that began, less earlier waits for it; otherwise 0 */
	uint64_t waited; /* waiting for another donor: the sum of its waits */
};

/* A request of the store's caller. */
struct far_request {
	struct store_io io;
	uint32_t next;   /* pages done or under way */
	uint32_t pieces; /* pieces under way */
	int status;      /* of the first piece that failed */
	uint64_t failed; /* of a read: donors that failed it, one bit each */
	int failure;     /* the first of these failures */
	bool again;      /* to be carried out anew: a connection ended, or one of several replicas failed a read */
	struct far_wait waits[FAR_REPLICAS_MAX];
	uint64_t asked;   /* index + 1 of the chunk whose slab it waits for, or 0 */
	uint32_t denials; /* of that chunk, when the wait began */
	bool busy;        /* being issued, or parked */
	unsigned only;    /* index + 1 of the only donor it may use, or 0 for any */
	uint32_t epoch;   /* with `only`: the epoch in which its chunk is held */
	bool redone;      /* a write that its queue counts in `redone` */
	bool corrupt;     /* a donor in `failed` sent wrong bytes */
	bool unsaved;     /* the backup does not have its pages */
	uint32_t single;  /* if it is read page by page: index + 1 of the current page; otherwise 0 */
};

/* One of the two reads of a piece that may be hedged. It goes into a buffer of the queue. */
struct far_try {
	uint64_t posted_at; /* ns */
	uint16_t donor;
	uint8_t buffer; /* index + 1, or 0 if there is no read, or it was answered */
};

struct far_piece {
	uint64_t page;
	uint8_t *data;
	uint64_t chunk;
	uint32_t count;
	uint32_t epoch;
	uint16_t request;
	uint16_t donor;          /* of a read: the first donor asked */
	uint16_t sealed;         /* of a write: index + 1 of its first page in the queue's buffer, or 0; far_sealed.h */
	bool again;              /* a connection ended; the operation may or may not have been carried out */
	bool overdue;            /* found overdue; not to be hedged any more */
	bool late;               /* its request has the pages and has ended; an answer is still to come */
	bool held;               /* a hedge: its chunk counts one page more, so that it is not given back */
	uint64_t left;           /* donors that have not answered, one bit each */
	struct far_try tries[2]; /* of a read that may be hedged; far_hedge.h */
};

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Carries the request on as far as possible. Returns FAR_WAITS if it must be called again. */
enum far_progress far_request_issue(struct far_queue *queue, uint16_t index);
/* Begins the next page of a request that is read page by page: every donor may be asked for it. Nothing of the request
   may be under way. */
void far_request_single(struct far_request *request);
/* Puts the request in the list of those that wait. */
void far_request_park(struct far_queue *queue, uint16_t index);
/* Ends the request, or parks it to be carried out anew, if nothing of it is under way. */
void far_request_settle(struct far_queue *queue, uint16_t index);
/* Publishes the piece that the next far_piece_start() makes. @view is NULL if the piece uses no slot. Returns
   FAR_GOES_OUT if it is published, FAR_ANEW if the chunk's slots are no longer those of @view, and FAR_KEPT_OUT if a
   window is open. The queue is woken when that window is closed. */
enum far_way { FAR_GOES_OUT, FAR_ANEW, FAR_KEPT_OUT };
enum far_way far_piece_publish(struct far_queue *queue, uint64_t page, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, bool write);
/* Makes a piece of the request's next @count pages. A piece must be idle. Returns the piece's index. */
uint16_t far_piece_start(struct far_queue *queue, uint16_t request_index, uint32_t count, uint64_t chunk,
			 uint32_t epoch);
/* Returns where the bytes are that go to or come from @donor, and their region. They are in the caller's buffer, or in
   one of the queue's. */
uint8_t *far_piece_bytes(const struct far_queue *queue, uint16_t index, unsigned donor,
			 const struct fabric_region **ret_region);
/* Checks that @data, received for page @nth of the piece, is as it was last written. If pages are sealed, also opens it
   into the caller's buffer, except on the rebuild thread's queue. Returns false if it is wrong. */
bool far_page_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data);
/* Marks a write to be carried out anew. Must be called before the piece that was cut off is ended. */
void far_request_redo(struct far_queue *queue, struct far_request *request);
/* Prepares the pages of a write, which is about to go out: stores their checksums (integrity.h), or seals them. */
void far_piece_prepare(struct far_queue *queue, uint16_t index);
/* Frees a piece that has no operation under way. */
void far_piece_end(struct far_queue *queue, uint16_t index);
/* Takes one piece off those under way of the request, and settles the request. The piece has ended, or is late. */
void far_request_ended(struct far_queue *queue, uint16_t index);
/* Takes one answer for a piece. @good is false if the connection ended first. */
void far_piece_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good);
/* Also sends the piece's read to another replica. */
void far_request_hedge(struct far_queue *queue, uint16_t index);
/* Returns the error that the caller of the store gets for @status. */
int far_answer_status(int status);
/* Posts all staged operations. */
void far_links_flush(struct far_queue *queue);
/* Ends the connection to the donor, if there is one, as a fence. Operations under way there will be carried out
   anew. */
void far_link_drop(struct far_queue *queue, unsigned donor);

#endif
