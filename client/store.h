/*
 * store: far memory as an array of pages.
 *
 * Theory of operation. A store has `pages` pages of STORE_PAGE bytes, which all read as zeroes at first. A thread
 * first opens a queue (store_queue_open()). Then the thread submits reads and writes of runs of pages
 * (store_submit()), and polls for their completions (store_poll()). A thread that has nothing else to do arms the
 * queue (store_arm()) and sleeps on the queue's descriptor. store_discard() frees pages that the caller no longer
 * needs.
 *
 * pager/ and blockdev/ read and write pages only through this header, so they work on any store. far_open()
 * (client/far.h) opens a store on donors. store_open_memory() opens a store in local memory. Tests have stores of
 * their own, which inject faults.
 *
 * Invariants, which hold whatever fails:
 *   1. A read returns the bytes of the last completed write of that page, or an error. It never returns older bytes,
 *      or bytes of another page or another client.
 *   2. A write is complete when every live replica has it.
 *   3. A page that was never written, or was discarded, reads as zeroes. It costs neither network traffic nor memory
 *      of donors.
 *
 * The caller's duties, for all queues together:
 * - While a write of a page is in flight, the caller does not read, write or discard that page.
 * - While a read of a page is in flight, the caller does not write or discard that page.
 *
 * Functions return 0 or a positive count on success, and -errno on failure. Outputs are written only on success.
 */
#ifndef CLIENT_STORE_H
#define CLIENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE 4096u
/* The most pages in one request. */
#define STORE_RUN_MAX 256u

struct store;
struct store_queue;
struct store_buffer;

enum store_op { STORE_READ, STORE_WRITE };

struct store_io {
	enum store_op op;
	uint32_t count; /* pages in the run, 1 .. STORE_RUN_MAX */
	uint64_t page;  /* first page of the run */
	void *data;     /* count * STORE_PAGE bytes inside @buffer; the caller must not touch them until completion */
	struct store_buffer *buffer;
	uint64_t cookie; /* returned in the completion */
};

/* The result of a request. If one page fails, the whole run fails. */
struct store_done {
	uint64_t cookie;
	/*
	 * 0 on success, or:
	 *
	 * - -EIO: the donor that held the page is gone
	 * - -EBADMSG: the donor returned other bytes than were written
	 * - -ENOSPC: a write found no donor with a free slab
	 * - -ETIMEDOUT
	 */
	int status;
};

struct store_stats {
	uint64_t pages_live;              /* pages with contents on donors, and those being written or copied now */
	uint64_t bytes_leased;            /* slabs that this store leases, in bytes */
	uint64_t bytes_available;         /* bytes that could still be leased, according to the donors' last figures */
	bool donors_clear;                /* a donor is full, but clears slabs that it will lend again */
	bool donors_lost;                 /* all donors are lost */
	uint64_t reads, writes, discards; /* pages, since the store was opened */
	uint64_t zero_reads;              /* pages read as zeroes, without the network */
	uint64_t checksum_errors;
	uint64_t lost_pages;    /* pages whose last copy was lost with a donor */
	uint64_t missing_pages; /* lost pages that have not been written or discarded since */
	uint64_t slabs_lacking; /* replicas that chunks lack because a donor is lost and the rebuild is not finished */
	uint64_t rebuilt_pages;
	uint64_t repaired_pages; /* pages that one donor returned corrupt, and that were rewritten on that donor */
	uint64_t scrubbed_pages; /* pages that the scrub has read and found intact; each replica counts */
	uint64_t hedges;         /* reads also sent to a second replica, because the first was slow */
	uint64_t hedges_won;     /* hedges whose second replica answered first */
	uint64_t backup_pages;
	uint64_t backup_behind; /* pages that are not on the backup yet */
	uint64_t backup_reads;
	uint64_t backup_writes;  /* pages written to the backup alone, because no donor had room */
	uint64_t kept_pages;     /* pages that only the backup has */
	uint64_t returned_pages; /* pages copied back from the backup to donors */
	uint64_t memory;         /* store_memory() */
	bool encrypted;          /* pages are encrypted before they are sent */
};

struct store_ops {
	int (*register_buffer)(struct store *, void *base, size_t length, struct store_buffer **);
	void (*deregister_buffer)(struct store *, struct store_buffer *);
	int (*queue_open)(struct store *, struct store_queue **);
	void (*queue_close)(struct store_queue *);
	int (*submit)(struct store_queue *, const struct store_io *, unsigned);
	int (*poll)(struct store_queue *, struct store_done *, unsigned);
	int (*queue_fd)(const struct store_queue *);
	int (*arm)(struct store_queue *);
	bool (*quiet)(const struct store_queue *); /* NULL: the queue is always quiet */
	void (*discard)(struct store *, uint64_t page, uint64_t count);
	bool (*same)(const struct store *, uint64_t page, const void *data);
	void (*stats)(const struct store *, struct store_stats *);
	uint64_t (*memory)(const struct store *);
	void (*close)(struct store *);
};

/* The first members of every store, and of every queue. */
struct store {
	const struct store_ops *ops;
	uint64_t pages;
};
struct store_queue {
	struct store *store;
};

/* Registers memory for I/O. The caller keeps ownership, and frees the memory only after store_deregister(). While
   this runs, no queue that will use the memory may be inside a call. Any thread. */
int store_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer);
/* Ends the registration. NULL is allowed. */
void store_deregister(struct store *store, struct store_buffer *buffer);

/* Opens a queue. Only the calling thread may use the queue. May block on the network, up to the connect deadline. */
int store_queue_open(struct store *store, struct store_queue **ret_queue);
/* Closes the queue. No request may be in flight. NULL is allowed. */
void store_queue_close(struct store_queue *queue);

/* Submits requests in order, until all @count are submitted or the queue is full. Returns how many were submitted.
   The caller polls before it submits the others. Never blocks, allocates or logs, except when a donor is declared
   dead. */
int store_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
/* Submits the *@count requests at @ios, as store_submit() does; *@count may be 0. Moves those that the queue has not
   taken to the front of @ios, and sets *@count to their number. Returns how many were taken. */
int store_submit_staged(struct store_queue *queue, struct store_io *ios, unsigned *count);
/* Stores up to @max completions, without waiting. Returns how many. */
int store_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
/* Returns a descriptor to sleep on. After store_arm() has returned 0, the descriptor becomes readable when
   store_poll() may have a completion. */
int store_queue_fd(const struct store_queue *queue);
/* Prepares the queue for sleeping on its descriptor. Returns 0, or 1 if store_poll() must be called now. */
int store_arm(struct store_queue *queue);
/*
 * Returns false if the queue waits for an answer although all requests are complete. An example is a read that was
 * sent to two replicas: the faster answer completes the request, and the slower answer is still missing. Until the
 * queue polls the slower answer, the donor of this answer cannot get back a recalled slab. A thread with no request
 * in flight may therefore sleep without arming the queue only if this returns true. Only the queue's thread may call
 * it.
 */
bool store_quiet(const struct store_queue *queue);

/* Makes the pages read as zeroes, and frees their memory on the donors. Never blocks on the network. Any thread. */
void store_discard(struct store *store, uint64_t page, uint64_t count);

/*
 * Returns true if writing the STORE_PAGE bytes at @data to @page would change nothing:
 *
 * - The last completed write of the page had the same bytes. Only checksums of at least 64 bits are compared, so the
 *   result is wrong in one of 2^64 cases.
 * - Or the page reads as zeroes, and @data is all zero.
 *
 * Returns false for a lost page. Does not use the network. Any thread, while no I/O on that page is in flight.
 */
bool store_same(const struct store *store, uint64_t page, const void *data);

/* Returns how much memory of this process the store uses for bookkeeping and buffers, in bytes. The figure grows with
   the part of the store that was ever written. Cheap enough for every batch of pages. Any thread. */
uint64_t store_memory(const struct store *store);
/* Stores the current figures. Any thread. */
void store_stats(const struct store *store, struct store_stats *ret_stats);
/* Closes the store, and releases all its leases. All its queues must be closed. NULL is allowed. */
void store_close(struct store *store);

/* Opens a store whose pages are in local memory. Requests complete inside store_submit() and never fail. Returns 0,
   -EINVAL if @pages is 0 or too large, or -ENOMEM. */
int store_open_memory(uint64_t pages, struct store **ret_store);

#endif
