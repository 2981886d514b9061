/*
 * far_request: the life of a request of the store's caller, from submission to completion. See far_queue.h.
 *
 *     FREE --submitted--> UNDER_WAY --waits--> PARKED --looked at--> UNDER_WAY
 *                             |  carried out anew -^
 *                             +--all pieces have ended--> FREE; the completion waits to be polled
 *
 * A request waits for room, a slab or a donor. Some of its pieces may be under way meanwhile. request_moves[] in
 * far_request.c lists the legal moves.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_REQUEST_H
#define CLIENT_FAR_REQUEST_H

#include "client/io/far_queue.h"

#include <errno.h>

/* A donor that a request waits for, or has waited for. Each donor has its own wait, because a long wait for one donor
   must not shorten the wait for another. */
struct far_wait {
	unsigned donor;
	uint64_t since;  /* when the current wait began, minus earlier waits for this donor; 0 if none */
	uint64_t waited; /* the sum of earlier waits for this donor, if `since` is 0 */
};

enum far_request_state {
	REQUEST_FREE,
	REQUEST_UNDER_WAY, /* its pieces are being made, or are under way */
	REQUEST_PARKED,    /* in the queue's ring of requests that wait */
	REQUEST_STATES
};
const char *far_request_state_name(enum far_request_state state);

/* Means no donor, or no page. */
#define FAR_NONE UINT32_MAX
#define FAR_NO_CHUNK UINT64_MAX

struct far_request {
	struct store_io io;
	enum far_request_state state;
	uint32_t next;   /* pages done or under way */
	uint32_t pieces; /* pieces under way */
	int status;      /* the status of the first piece that failed */
	uint64_t failed; /* of a read: donors that failed it, one bit each */
	int failure;     /* the first of these failures */
	uint32_t single; /* the current page, counted from io.page, of a read page by page; otherwise FAR_NONE */
	struct far_wait waits[FAR_REPLICAS_MAX];
	uint64_t wanted;    /* the chunk whose slab it waits for, or FAR_NO_CHUNK */
	uint32_t denials;   /* that chunk's denials when the wait began */
	uint32_t only;      /* the only donor that it may use, or FAR_ON_BACKUP; FAR_NONE for any */
	uint32_t epoch;     /* the epoch in which its chunk is held, if `only` is set */
	bool anew;          /* to be carried out anew: a connection ended, or one of several replicas failed a read */
	bool counted_anew;  /* a write that queue->redone counts */
	bool wrong_bytes;   /* a donor in `failed` sent wrong bytes */
	bool not_on_backup; /* the backup does not have the request's pages */
};

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Takes a request and carries it out as far as possible. @only is a donor, FAR_ON_BACKUP or FAR_NONE. @epoch is that of
   far_queue_submit_to(). At least one request must be FREE. */
void far_request_submit(struct far_queue *queue, const struct store_io *io, uint32_t only, uint32_t epoch);
/* Carries out all requests that wait, as far as possible. */
void far_request_look(struct far_queue *queue);
/* Counts one piece of the request less. After the last piece, the request ends or is carried out anew. The piece must
   have ended, or be LATE. */
void far_request_ended(struct far_queue *queue, uint16_t request);

/* Returns the error that the caller of the store gets for @status. */
static inline int far_request_status(int status)
{
	return status == -ETIMEDOUT || status == -EBADMSG || status == -ENOSPC ? status : -EIO;
}

#endif
