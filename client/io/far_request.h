/*
 * far_request: one request of the store's caller, from its submission to its completion. See far_queue.h.
 *
 *     FREE --submitted--> UNDER_WAY --must wait--> PARKED --tried again--> UNDER_WAY
 *                             |  carried out anew ----^
 *                             +--all pieces have ended--> FREE; its completion waits to be polled
 *
 * A request is PARKED while it waits for a free piece, a slab or a donor. Some of its pieces may be in flight
 * meanwhile. request_moves[] in far_request.c lists the legal moves.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_REQUEST_H
#define CLIENT_FAR_REQUEST_H

#include "client/io/far_queue.h"

#include <errno.h>

/* A donor that a request waits for, or has waited for. The time is measured for each donor separately, because a
   long wait for one donor must not shorten the wait for another. */
struct far_wait {
	unsigned donor;
	uint64_t since;  /* when the current wait began, minus earlier waits for this donor; 0 if none */
	uint64_t waited; /* if `since` is 0: the sum of earlier waits for this donor */
};

enum far_request_state {
	REQUEST_FREE,
	REQUEST_UNDER_WAY, /* its pieces are being made, or are in flight */
	REQUEST_PARKED,    /* in the queue's ring of parked requests */
	REQUEST_STATES
};

/* FAR_NONE means no donor, or no page. */
#define FAR_NONE UINT32_MAX
#define FAR_NO_CHUNK UINT64_MAX

struct far_request {
	struct store_io io;
	enum far_request_state state;
	uint32_t next; /* pages that are complete or in flight */
	uint32_t pieces;
	int status;               /* status of the first piece that failed */
	struct few_donors failed; /* reads: donors that have failed this request */
	int failure;              /* the status of the first of these failures */
	uint32_t single; /* the current page of a read page by page, counted from io.page; otherwise FAR_NONE */
	struct far_wait waits[FAR_REPLICAS_MAX];
	uint64_t wanted;    /* the chunk for whose slab the request waits, or FAR_NO_CHUNK */
	uint32_t denials;   /* that chunk's number of denials when the wait began */
	uint32_t only;      /* the only donor that the request may use, or FAR_ON_BACKUP, or FAR_NONE for any */
	uint32_t epoch;     /* if `only` is set: the epoch in which its chunk is counted */
	bool anew;          /* it must be carried out anew, because a connection ended or a replica failed a read */
	bool counted_anew;  /* a write that is counted in queue->redone */
	bool wrong_bytes;   /* a donor in `failed` has returned wrong bytes */
	bool not_on_backup; /* the backup does not have the request's pages */
};

enum far_progress { FAR_GOES_ON, FAR_WAITS };

/* Submits a request and carries it out as far as possible. @only is a donor, FAR_ON_BACKUP or FAR_NONE. @epoch is
   as for far_queue_submit_to(). At least one request must be FREE. */
void far_request_submit(struct far_queue *queue, const struct store_io *io, uint32_t only, uint32_t epoch);
/* Carries out all parked requests as far as possible. */
void far_request_look(struct far_queue *queue);
/* Called when a piece of the request has ended or is LATE. After the last piece, the request ends or is carried out
   anew. */
void far_request_ended(struct far_queue *queue, uint16_t request);

/* Returns true if a read of the request must not be sent to the donor, because the donor has failed the request. If
   more donors have failed it than `failed` can hold, no further donor is asked: its pages are then read one by one, or
   the read fails. */
static inline bool far_request_has_failed_on(const struct far_request *request, unsigned donor)
{
	return few_donors_has(&request->failed, donor) || few_donors_is_full(&request->failed);
}

/* Returns the error that the store's caller gets for @status. */
static inline int far_request_status(int status)
{
	return status == -ETIMEDOUT || status == -EBADMSG || status == -ENOSPC ? status : -EIO;
}

#endif
