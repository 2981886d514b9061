/*
 * far_queue: one thread's way to the pages on donors.
 *
 * Theory of operation. A request is a run of pages and is carried out in pieces: a piece is a stretch of pages of one
 * chunk that are all fetched, or all written, with one fabric operation (a write: one for each replica). Pages that
 * need no network are dealt with on the way: never-written ones are zero-filled, lost ones fail the request, pages
 * written with zeroes become never-written ones. A request that cannot go on (no piece or no room in a connection is
 * free, or its chunk has no slab yet) waits in a list and is looked at again by the next poll after something came.
 *
 *   write  hold the pages in their chunk's count, checksum or seal (far_sealed.h) them, post; when all live replicas
 *          have answered: commit checksum and generation, then see whether the chunk is still what it was (the donor
 *          may have been declared dead meanwhile), then report.
 *   read   look at the chunk's slots, post to the first live replica, or a faster one, verify, report. With more
 *          replicas a read that failed starts again on the next one, and one that is overdue is asked for there, too
 *          (far_hedge.h). One of several pages that nobody has all of as they were written is carried out once more,
 *          page by page, with everybody to ask for each.
 *
 * An operation that fails takes its connection with it (farpage/fabric.h). The queue ends that connection, which fences
 * it, reports it to the control thread, and carries out anew every request that had something under way there: reads
 * and writes may be repeated. Until the donor is up again or lost (peers.h) they wait; in each of its rounds the queue
 * connects to it once. A write is not complete while a donor of its chunk is away, for it may return with what it had.
 *
 * A write that meets an away donor while another replica's is up has the control thread detach the away one's slot
 * (chunk_hinder), and goes on without it.
 *
 * Published pieces. Before a piece goes out it is published: its pages and the version of the chunk's slots that it
 * goes by. Then the slots are looked at once more: if they have changed the piece is withdrawn and begun anew. So
 * whoever changes a slot, or opens a window, and looks at the published pieces after that, sees all that may still go
 * by the old slots, or be under way in the window; what is not there goes by the new ones. A window (rebuild.h) keeps
 * writers out of some pages: a write that finds one open is withdrawn, too, and waits until it is closed. Both sides
 * store before they load, in the one order of sequential consistency.
 *
 * The rebuild thread's own queue (far_queue_direct) is different: it waits for no donor, its pieces are not published,
 * and a request of it may name the one donor that is to be read or written. Such a write leaves checksum and generation
 * alone.
 *
 * Threads. The one that uses the queue; far_queue_wake() comes from the control thread. Everything is allocated in
 * queue_open.
 */
#ifndef CLIENT_FAR_QUEUE_H
#define CLIENT_FAR_QUEUE_H

#include "client/far_store.h"

/* Requests in flight on one queue. */
#define FAR_QUEUE_DEPTH 512u

int far_queue_open(struct store *store, struct store_queue **ret_queue);
void far_queue_close(struct store_queue *queue);
int far_queue_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
int far_queue_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
int far_queue_fd(const struct store_queue *queue);
int far_queue_arm(struct store_queue *queue);
bool far_queue_quiet(const struct store_queue *queue);

/* Something changed that requests may wait for; @all: that every queue has to look at. The control thread, with
   far->lock held. */
void far_queue_wake(struct far_queue *queue, bool all);
/* Adds what the queue has counted to @counters. Any thread, with far->lock held. */
void far_queue_count(const struct far_queue *queue, struct far_counters *counters);

/* What the struct consists of is known to far_queue*.c; the list of queues needs only this of it. */
/* The queue is the rebuild thread's. */
void far_queue_direct(struct store_queue *queue);
/* Takes one request for @donor alone, of pages of one chunk, which waits for nothing. The caller holds the chunk in
   @epoch, so that its slabs stay the chunk's. A write fails with -ESTALE, and a read with -EIO, if that epoch has
   ended, or the donor has no slot of the chunk (a read: no FULL one); both with -EIO if it cannot be reached. Never
   full when nothing is in flight. */
void far_queue_submit_to(struct store_queue *queue, const struct store_io *io, unsigned donor, uint32_t epoch);
/* Whether a piece is published that has pages of [@page, @page + @count): a write (@version NULL); or anything that
   does not go by *@version. Any thread, with far->lock held. */
bool far_queue_is_at(const struct far_queue *queue, uint64_t page, uint64_t count, const uint32_t *version);
/* How many are. Any thread, with far->lock held. */
unsigned far_queue_busy(const struct far_queue *queue);

#define HEDGE_BUFFERS 16u

/* What far_hedge.c keeps. */
struct far_hedge {
	uint8_t *memory; /* the buffers; NULL: there are no replicas, nothing is steered or hedged */
	struct fabric_region *region;
	uint32_t idle;                  /* buffers, a bit each */
	uint16_t pieces[HEDGE_BUFFERS]; /* whose they are */
	uint64_t limit;                 /* ns that an answer may take; 0: not known yet */
	uint64_t due;                   /* nothing becomes overdue before */
	unsigned reads;                 /* since another replica was looked at */
	unsigned looks;
	unsigned credit; /* HEDGE_COST for one */
};

#define SEALED_PAGES 128u

/* What far_sealed.c keeps. */
struct far_sealed {
	struct seal *seal; /* NULL: pages travel as they are */
	uint8_t *memory;   /* SEALED_PAGES pages; NULL: of the rebuild thread's queue, or none */
	struct fabric_region *region;
	uint64_t idle[SEALED_PAGES / 64]; /* pages of it, a bit each */
};

struct backup_io;
struct far_link;
struct far_request;
struct far_piece;
struct far_queue {
	struct store_queue base;
	LIST_ENTRY(far_queue) link;
	struct far *far;
	struct fabric *fabric;
	struct far_link *links; /* one a donor */
	uint64_t memory;        /* bytes, when it was opened */
	int wake;               /* eventfd */
	_Atomic bool waiting;   /* requests wait for the control thread */
	uint32_t changes;       /* far->changes, as last looked at */
	bool congested;         /* a request waits for room */
	bool look;              /* something came that waiting requests may go on with */
	struct far_request *requests;
	struct far_piece *pieces;
	_Atomic uint64_t *published; /* one a piece; far_published.h */
	_Atomic unsigned under_way;  /* how many of them are published */
	unsigned late;               /* how many are late; far_hedge.h */
	_Atomic unsigned redone;     /* writes that were cut off and are, or are to be, carried out anew */
	bool direct;
	uint16_t *idle_requests, *idle_pieces; /* stacks */
	unsigned idle_request_count, idle_piece_count;
	uint16_t *parked; /* a ring of the requests that wait, in order */
	unsigned parked_head, parked_tail;
	uint64_t staged;          /* links with operations not yet posted, a bit each */
	struct store_done *dones; /* a ring of FAR_QUEUE_DEPTH */
	unsigned head, tail;
	struct far_counters counters;
	struct far_hedge hedge;
	struct far_sealed sealed;
	unsigned polls;
	struct backup_io *backup_ios;               /* one a piece; NULL: there is no backup */
	_Atomic(struct backup_io *) backup_answers; /* a stack */
	unsigned backup_asked;                      /* of them, not yet answered */
};

#endif
