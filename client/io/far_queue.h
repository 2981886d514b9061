/*
 * far_queue: one thread's access to the pages on donors.
 *
 * Theory of operation. The caller submits a request for a run of pages (far_request.c). The queue cuts it into
 * pieces. A piece is a run of pages of one chunk, which one fabric operation fetches or writes. A write needs one
 * operation for each replica. When all pieces have ended, the request is complete. Some pages need no operation. A
 * page that was never written reads as zeroes. A page that is written with zeroes counts as discarded. A read of a
 * lost page fails.
 *
 * A request must wait if no piece is free, a connection has no room, or its chunk has no slab yet. It is then
 * parked in a ring, and the next far_queue_poll() after an event tries it again.
 *
 *   write  Count the pages in their chunk, compute checksums or seal the pages (far_sealed.h), and post the
 *          operations. When all live replicas have answered, commit checksums and generations. Then compare the
 *          chunk's epoch, because the donors may have been lost meanwhile. Then complete the piece.
 *   read   Look at the chunk's slots, and post the operation to the first live replica or a faster replica. Check the
 *          bytes, and complete the piece. With several replicas, a read that fails is sent to the next replica. An
 *          overdue read is also sent to a second replica (far_hedge.h). If no donor returns all pages of a request
 *          intact, the pages are read one by one: each page may be intact on another donor.
 *
 * Connections. A queue connects to all donors when it is opened. With many donors (far_config.connect_late) it connects
 * to a donor when a request first needs it (far_link_need()), and the request waits for the connection.
 *
 * A donor away. A failed operation breaks its connection (fabric/fabric.h). The queue ends the connection, and so
 * fences it. It reports the break to the control thread. Every request with an operation on that connection is
 * carried out anew, which is safe because reads and writes may be repeated. These requests wait until the donor is up
 * again or lost (donors.h). When the donor's next round begins, the queue connects to it again. A write waits, too,
 * if a donor of its chunk is away, because that donor may return with the old contents. But if another replica's
 * donor is up, the control thread detaches the slot of the away donor (chunk_hinder()), and the write continues
 * without it.
 *
 * Publishing. Another thread may change a chunk's slots, or open a window, while pieces are in flight. That thread
 * must then wait for the pieces that use the old slots, or that write in the window. So the queue publishes a piece
 * before it sends the piece: its pages, and the version of the slots. Then the queue looks at the slots again. If
 * they have changed, the piece is withdrawn and made anew with the new slots. The other thread first changes the
 * slots, and then looks at published pieces. The queue and the other thread store before they load, with sequential
 * consistency. So at least one of them sees what the other has stored.
 *
 * A rebuild window (copier.h) keeps writes out of some pages. A write that finds a window open is withdrawn, and
 * waits until the window is closed.
 *
 * The rebuild thread's queue differs (far_queue_direct()): it does not wait for donors, and its pieces are not
 * published. Its requests may name the one donor to read from or write to. A write to one donor changes neither
 * checksum nor generation.
 *
 * Threads. The thread that has opened the queue calls most functions. The control thread and the rebuild thread
 * call far_queue_wake(). All memory is allocated in far_queue_open().
 */
#ifndef CLIENT_FAR_QUEUE_H
#define CLIENT_FAR_QUEUE_H

#include "client/far_store.h"
#include "client/io/far_hedge.h"
#include "client/io/far_sealed.h"

/* The most requests in flight on one queue, unless far_config.queue_depth says less. */
#define FAR_QUEUE_DEPTH 512u

int far_queue_open(struct store *store, struct store_queue **ret_queue);
void far_queue_close(struct store_queue *queue);
int far_queue_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
int far_queue_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
int far_queue_fd(const struct store_queue *queue);
int far_queue_arm(struct store_queue *queue);
bool far_queue_quiet(const struct store_queue *queue);

/* Wakes the queue if its requests wait, or in any case if @all is true. Called with far->lock held. */
void far_queue_wake(struct far_queue *queue, bool all);
/* Adds the queue's counters to @counters. Any thread, with far->lock held. */
void far_queue_count(const struct far_queue *queue, struct far_counters *counters);

/* Turns the queue into that of the rebuild thread. No request may be in flight. */
void far_queue_direct(struct store_queue *queue);
/* Submits a request for @donor alone, or for FAR_ON_BACKUP if it is a write. All its pages must be in one chunk. The
   caller must have raised the chunk's count (chunks.h) in @epoch, so that the chunk's slabs are not released. The
   queue must have room, as an idle queue always has. The request does not wait for the donor, but fails with -EIO if
   the donor cannot be reached. If the epoch has ended, or the donor has no slot of the chunk, a write fails with
   -ESTALE and a read with -EIO. A read needs a FULL slot. */
void far_queue_submit_to(struct store_queue *queue, const struct store_io *io, unsigned donor, uint32_t epoch);
/* Returns true if a published piece has pages of [@page, @page + @count). If @version is NULL, only writes count.
   Otherwise only pieces of another version than *@version count. Any thread, with far->lock held. */
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
	bool connects_late;     /* connects to a donor when it first uses the donor */
	unsigned depth;         /* the most requests in flight, a power of two */
	uint64_t memory;        /* this queue's part of far->queue_memory, in bytes */
	int wake;               /* eventfd */
	_Atomic bool waiting;   /* requests wait until another thread wakes the queue */
	uint32_t changes;       /* the value of far->changes that the queue has seen */
	bool congested;         /* a request waits for a piece, or for room on a connection */
	bool look;              /* parked requests may be able to continue */
	struct far_request *requests;
	struct far_piece *pieces;
	_Atomic uint64_t *published; /* one per piece; far_published.h */
	_Atomic unsigned under_way;  /* number of published pieces */
	unsigned late;               /* number of pieces that are LATE; far_hedge.h */
	_Atomic unsigned redone;     /* writes that were cut off and are not complete yet */
	bool direct;
	uint16_t *idle_requests, *idle_pieces; /* stacks */
	unsigned idle_request_count, idle_piece_count;
	uint16_t *parked; /* a ring of parked requests, in order */
	unsigned parked_head, parked_tail;
	uint16_t *staged; /* donors whose links may have operations that are not posted yet */
	unsigned staged_count;
	struct store_done *dones; /* a ring of `depth` */
	unsigned head, tail;
	struct far_counters counters;
	struct far_hedge hedge;
	struct far_sealed sealed;
	unsigned polls;
	struct backup_io *backup_ios;               /* one per piece, or NULL without a backup */
	_Atomic(struct backup_io *) backup_answers; /* a stack of backup_ios */
	unsigned backup_asked;                      /* how many of backup_ios are not answered yet */
};

#endif
