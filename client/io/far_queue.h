/*
 * far_queue: one thread's way to the pages on donors.
 *
 * Theory of operation. A request is a run of pages, and is carried out in pieces. A piece is a stretch of pages of one
 * chunk that one fabric operation fetches or writes. A write takes one operation for each replica. Some pages need no
 * network. A never-written page is zero-filled. A lost page fails the request. A page written with zeroes becomes a
 * never-written one.
 *
 * A request waits in a list if all pieces are in use, a connection has no room, or its chunk has no slab yet. The next
 * poll after an event looks at the request again.
 *
 *   write  Count the pages in their chunk, checksum or seal (far_sealed.h) them, and post. When all live replicas have
 *          answered, commit checksum and generation. Then check that the chunk's epoch is still the same, because the
 *          donor may be lost by now. Then report.
 *   read   Look at the chunk's slots, post to the first live replica or a faster one, verify, report. With several
 *          replicas, a failed read starts again on the next one, and an overdue read is sent to the next one, too
 *          (far_hedge.h). If no donor returns all pages of a request unchanged, the request is carried out page by
 *          page. Each page may then come from any donor.
 *
 * A failed operation breaks its connection (fabric/fabric.h). The queue ends that connection, which fences it, and
 * reports it to the control thread. It carries out anew every request that had an operation on that connection. This is
 * safe, because reads and writes may be repeated. These requests wait until the donor is up again or lost (donors.h).
 * In each round of the donor, the queue connects to it once. A write is not complete while a donor of its chunk is
 * away, because that donor may return with its old contents.
 *
 * If a write meets an away donor while another replica's donor is up, the control thread detaches the away donor's slot
 * (chunk_hinder()). The write then goes on without it.
 *
 * Published pieces. Before a piece goes out, the queue publishes the piece's pages and the version of the chunk's
 * slots. Then the queue looks at the slots once more. If they have changed, the piece is withdrawn and begun anew.
 * Another thread may change a slot, or open a window, and then look at the published pieces. That thread sees every
 * piece that may still use the old slots, or be under way in the window. A piece that the thread does not see uses the
 * new slots. Both sides store before they load, with sequential consistency.
 *
 * A window (rebuild.h) keeps writers out of some pages. A write that finds a window open is withdrawn, too, and waits
 * until the window is closed.
 *
 * The rebuild thread's queue is different (far_queue_direct()). It waits for no donor, and its pieces are not
 * published. Its requests may name the one donor to read from or write to. A write to one donor leaves checksum and
 * generation alone.
 *
 * Threads. The thread that uses the queue calls most functions. The control thread and the rebuild thread call
 * far_queue_wake(). All memory is allocated in far_queue_open().
 */
#ifndef CLIENT_FAR_QUEUE_H
#define CLIENT_FAR_QUEUE_H

#include "client/far_store.h"
#include "client/io/far_hedge.h"
#include "client/io/far_sealed.h"

/* The largest number of requests in flight on one queue. */
#define FAR_QUEUE_DEPTH 512u

int far_queue_open(struct store *store, struct store_queue **ret_queue);
void far_queue_close(struct store_queue *queue);
int far_queue_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
int far_queue_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
int far_queue_fd(const struct store_queue *queue);
int far_queue_arm(struct store_queue *queue);
bool far_queue_quiet(const struct store_queue *queue);

/* Wakes the queue if its requests wait, or, with @all, in any case. Called with far->lock held. */
void far_queue_wake(struct far_queue *queue, bool all);
/* Adds the queue's counters to @counters. Any thread, with far->lock held. */
void far_queue_count(const struct far_queue *queue, struct far_counters *counters);

/* Makes this the rebuild thread's queue. No request may be in flight. */
void far_queue_direct(struct store_queue *queue);
/* Takes one request for @donor alone (or FAR_ON_BACKUP, for a write), for pages of one chunk. It does not wait for the
   donor. The caller must have counted in the chunk in @epoch, so that the chunk keeps its slabs. An idle queue always
   has room. The request fails with -EIO if the donor cannot be reached. If the epoch has ended, or the donor has no
   slot of the chunk, a write fails with -ESTALE, and a read with -EIO. A read needs a FULL slot. */
void far_queue_submit_to(struct store_queue *queue, const struct store_io *io, unsigned donor, uint32_t epoch);
/* Returns true if a published piece has pages of [@page, @page + @count). If @version is NULL, only writes count.
   Otherwise only pieces of a version other than *@version count. Any thread, with far->lock held. */
bool far_queue_is_at(const struct far_queue *queue, uint64_t page, uint64_t count, const uint32_t *version);
/* Returns how many pieces are published. Any thread, with far->lock held. */
unsigned far_queue_busy(const struct far_queue *queue);

struct backup_io;
struct far_link;
struct far_request;
struct far_piece;
struct far_queue {
	struct store_queue base;
	LIST_ENTRY(far_queue) link;
	struct far *far;
	struct fabric *fabric;
	struct far_link *links; /* one per donor */
	uint64_t memory;        /* this queue's part of far->queue_memory, in bytes */
	int wake;               /* eventfd */
	_Atomic bool waiting;   /* requests wait for a wake-up by another thread */
	uint32_t changes;       /* far->changes when waiting requests were last looked at */
	bool congested;         /* a request waits for room */
	bool look;              /* waiting requests may go on */
	struct far_request *requests;
	struct far_piece *pieces;
	_Atomic uint64_t *published; /* one per piece; far_published.h */
	_Atomic unsigned under_way;  /* pieces that are published */
	unsigned late;               /* pieces that are late; far_hedge.h */
	_Atomic unsigned redone;     /* writes that were cut off and are not complete yet */
	bool direct;
	uint16_t *idle_requests, *idle_pieces; /* stacks */
	unsigned idle_request_count, idle_piece_count;
	uint16_t *parked; /* a ring of the requests that wait, in order */
	unsigned parked_head, parked_tail;
	uint64_t staged;          /* links with operations not yet posted, one bit each */
	struct store_done *dones; /* a ring of FAR_QUEUE_DEPTH */
	unsigned head, tail;
	struct far_counters counters;
	struct far_hedge hedge;
	struct far_sealed sealed;
	unsigned polls;
	struct backup_io *backup_ios;               /* one per piece, or NULL without a backup */
	_Atomic(struct backup_io *) backup_answers; /* a stack of backup_ios */
	unsigned backup_asked;                      /* backup_ios that are not answered yet */
};

#endif
