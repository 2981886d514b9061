/*
 * far_request: the life of a request of the store's caller, from submission to completion. See far_queue.h.
 *
 *     FREE --submitted--> UNDER_WAY --waits--> PARKED --looked at--> UNDER_WAY
 *                             |  carried out anew -^
 *                             +--all pieces have ended--> FREE; the completion waits to be polled
 *
 * A request waits for room, a slab or a donor. Meanwhile pieces of it may be under way, too. request_moves[] in
 * far_request.c lists the legal moves.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_REQUEST_H
#define CLIENT_FAR_REQUEST_H

#include "client/io/far_queue.h"

#include <errno.h>

/* A donor that a request waits for, or has waited for. Each donor is timed separately: a long wait for one donor must
   not shorten the wait for another. */
struct far_wait {
	unsigned donor;
	uint64_t since;  /* waiting for it: when that began, less earlier waits for it; otherwise 0 */
	uint64_t waited; /* waiting for another donor: the sum of its waits */
};

enum far_request_state {
	REQUEST_FREE,
	REQUEST_UNDER_WAY, /* pieces of it are being made, or are under way */
	REQUEST_PARKED,    /* in the queue's ring of requests that wait */
	REQUEST_STATES
};
const char *far_request_state_name(enum far_request_state state);

/* No donor, or no page. */
#define FAR_NONE UINT32_MAX
#define FAR_NO_CHUNK UINT64_MAX

struct far_request {
	struct store_io io;
	enum far_request_state state;
	uint32_t next;   /* pages done or under way */
	uint32_t pieces; /* pieces under way */
	int status;      /* of the first piece that failed */
	uint64_t failed; /* of a read: donors that failed it, one bit each */
	int failure;     /* the first of these failures */
	uint32_t single; /* if it is read page by page: the current page, counted from io.page; otherwise FAR_NONE */
	struct far_wait waits[FAR_REPLICAS_MAX];
	uint64_t wanted;    /* the chunk whose slab it waits for, or FAR_NO_CHUNK */
	uint32_t denials;   /* of that chunk, when the wait began */
	uint32_t only;      /* the only donor that it may use, or FAR_ON_BACKUP; FAR_NONE for any */
	uint32_t epoch;     /* with `only`: the epoch in which its chunk is held */
	bool anew;          /* must be carried out anew: a connection ended, or one of several replicas failed a read */
	bool counted_anew;  /* a write that queue->redone counts */
	bool wrong_bytes;   /* a donor in `failed` sent wrong bytes */
	bool not_on_backup; /* the backup does not have its pages */
};

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Takes a request and carries it on as far as possible. @only is a donor, FAR_ON_BACKUP or FAR_NONE. With a donor,
   @epoch is that of far_queue_submit_to(). A request must be free. */
void far_request_submit(struct far_queue *queue, const struct store_io *io, uint32_t only, uint32_t epoch);
/* Carries on all requests that wait, as far as possible. */
void far_request_look(struct far_queue *queue);
/* Takes one piece off those under way of the request. If it was the last one, ends the request or has it carried out
   anew. The piece must have ended, or be late. */
void far_request_ended(struct far_queue *queue, uint16_t request);

/* Returns the error that the caller of the store gets for @status. */
static inline int far_request_status(int status)
{
	return status == -ETIMEDOUT || status == -EBADMSG || status == -ENOSPC ? status : -EIO;
}

#endif
