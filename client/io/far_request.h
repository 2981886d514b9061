/* far_request: the life of a request of the store's caller, from submission to completion. See far_queue.h. Threads: the
   queue's. */
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

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Takes a request and carries it on as far as possible. @only is index + 1 of the only donor that it may use, or 0 for
   any. @epoch is that of far_queue_submit_to(). A request must be idle. */
void far_request_submit(struct far_queue *queue, const struct store_io *io, unsigned only, uint32_t epoch);
/* Carries on all requests that wait, as far as possible. */
void far_request_look(struct far_queue *queue);
/* Takes one piece off those under way of the request. Without any left, ends the request or has it carried out anew.
   The piece has ended, or is late. */
void far_request_ended(struct far_queue *queue, uint16_t request);

/* Returns the error that the caller of the store gets for @status. */
static inline int far_request_status(int status)
{
	return status == -ETIMEDOUT || status == -EBADMSG || status == -ENOSPC ? status : -EIO;
}

#endif
