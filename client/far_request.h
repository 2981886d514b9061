/*
 * far_request: the state of requests and pieces, shared by far_queue.c (connections, submit, poll), far_request.c
 * (how a request is cut into pieces) and far_piece.c (how pieces begin and end). See far_queue.h.
 */
#ifndef CLIENT_FAR_REQUEST_H
#define CLIENT_FAR_REQUEST_H

#include "client/far_queue.h"
#include "client/latency.h"

/* Operations gathered for one doorbell. */
#define FAR_LINK_BATCH 16u

/* A donor, as a queue sees it. */
struct far_link {
	struct fabric_conn *conn; /* NULL: none (any more) */
	bool established;         /* and not known to have ended */
	uint32_t round;           /* the donor's, in which it was made */
	struct latency latency;   /* of reads, where there are replicas */
	unsigned staged;
	struct fabric_op ops[FAR_LINK_BATCH];
};

/* A donor that a request has had to wait for. Each for itself: that one was away for long is no reason to wait for
   another for less. */
struct far_wait {
	unsigned donor;
	uint64_t since;  /* while it is waited for: when that began, less what was waited for it before; else 0 */
	uint64_t waited; /* while another is: for how long altogether */
};

/* What a caller waits for. */
struct far_request {
	struct store_io io;
	uint32_t next;   /* pages dealt with or under way */
	uint32_t pieces; /* under way */
	int status;      /* of the first piece that failed */
	uint64_t failed; /* of a read: donors that failed it, a bit each */
	int failure;     /* and how the first did */
	bool again;      /* it is carried out anew: a connection ended, or a read failed on one replica of several */
	struct far_wait waits[FAR_REPLICAS_MAX];
	uint64_t asked;   /* the chunk whose slab it waits for + 1, or 0 */
	uint32_t denials; /* of that, when it began to wait */
	bool busy;        /* it is being issued, or parked */
	unsigned only;    /* the one donor it is for + 1, or 0 */
	uint32_t epoch;   /* with `only`: in which its chunk is held */
	bool redone;      /* a write, and counted in its queue's `redone` */
	bool corrupt;     /* a donor in `failed` sent back something else */
	bool unsaved;     /* the backup does not have its pages */
	uint32_t single;  /* it is read page by page: the one being read + 1; 0: all at once */
};

/* One of the reads that a piece may be asked for by, into a buffer of the queue's own. */
struct far_try {
	uint64_t posted_at; /* ns */
	uint16_t donor;
	uint8_t buffer; /* + 1; 0: it has been answered, or was not made */
};

struct far_piece {
	uint64_t page;
	uint8_t *data;
	uint64_t chunk;
	uint32_t count;
	uint32_t epoch;
	uint16_t request;
	uint16_t donor;          /* of a read: the first it was asked of */
	uint16_t sealed;         /* of a write: the first page of its part of the queue's buffer + 1; far_sealed.h */
	bool again;              /* a connection ended: whether it was carried out there is not known */
	bool overdue;            /* it was looked at whether it can be hedged */
	bool late;               /* its request has its pages, and is done with it; some answer is still to come */
	bool held;               /* its chunk counts one more, that it is not given back; of one that was hedged */
	uint64_t left;           /* donors to answer, a bit each */
	struct far_try tries[2]; /* of a read that may be hedged; far_hedge.h */
};

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Carries the request on as far as it goes. FAR_WAITS: it must be looked at again. */
enum far_progress far_request_issue(struct far_queue *queue, uint16_t index);
/* The next page of a request that is read page by page: all are asked for it again. Nothing of it is under way. */
void far_request_single(struct far_request *request);
/* Puts it in the list of those that wait. */
void far_request_park(struct far_queue *queue, uint16_t index);
/* Ends it, if there is nothing more to do for it. */
void far_request_settle(struct far_queue *queue, uint16_t index);
/* Whether what is about to go out may: FAR_GOES_OUT; or the slots of @view (NULL: it goes to none) are not the chunk's
   any more, or a window keeps it out, and the queue is woken when that is closed. If it may, it is published, for the
   piece that far_piece_start() then makes of it. */
enum far_way { FAR_GOES_OUT, FAR_ANEW, FAR_KEPT_OUT };
enum far_way far_piece_publish(struct far_queue *queue, uint64_t page, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, bool write);
/* The request's next @count pages are a piece; its index. There is an idle one. */
uint16_t far_piece_start(struct far_queue *queue, uint16_t request_index, uint32_t count, uint64_t chunk,
			 uint32_t epoch);
/* Where the bytes are that go to, or come from, a donor: the caller's buffer, or one of the queue's. */
uint8_t *far_piece_bytes(const struct far_queue *queue, uint16_t index, unsigned donor,
			 const struct fabric_region **ret_region);
/* Whether @data, which was sent for page @nth of the piece, is what it is to read. Where pages are sealed the caller
   has it then. */
bool far_page_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data);
/* Of a write: it is carried out anew. Before the piece that was cut off is ended. */
void far_request_redo(struct far_queue *queue, struct far_request *request);
/* What is kept of the pages of a write, which are about to go out, is theirs (integrity.h): their checksums, or they
   are sealed. */
void far_piece_prepare(struct far_queue *queue, uint16_t index);
/* Nothing of it is under way any more. */
void far_piece_end(struct far_queue *queue, uint16_t index);
/* Its request has a piece less under way, and ends if that was the last. After the piece has ended, or is late. */
void far_request_ended(struct far_queue *queue, uint16_t index);
/* One operation of a piece was carried out, or (not @good) its connection ended first. */
void far_piece_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good);
/* Asks another replica, too, for what a piece is to read. */
void far_request_hedge(struct far_queue *queue, uint16_t index);
/* What a caller of the store is told. */
int far_answer_status(int status);
/* Posts what was staged. */
void far_links_flush(struct far_queue *queue);
/* Ends a connection, if there is one: the fence. What was under way on it is carried out anew. */
void far_link_drop(struct far_queue *queue, unsigned donor);

#endif
