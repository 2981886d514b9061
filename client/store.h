/*
 * store: far memory as an array of pages.
 *
 * Theory of operation. A store holds `pages` pages of STORE_PAGE bytes. All are zero at first. Threads access a store
 * through queues. Each queue belongs to one thread, takes reads and writes of runs of pages, and is polled for their
 * completions. There are two stores: far memory on donors (client/far.h), and an array in local memory. Tests have a
 * third. pager/ and blockdev/ know only this header.
 *
 * Invariants, which hold whatever fails:
 *  1. A read returns the bytes of the last completed write of that page, or an error. It never returns older bytes, or
 *     bytes of another page or another client.
 *  2. A write is complete when every live replica has it.
 *  3. A page that was never written, or was discarded, reads as zeroes. It costs neither network traffic nor memory of
 *     donors.
 *
 * The caller's duties, for all queues together:
 *  - While a write of a page is in flight, the caller does not read, write or discard that page.
 *  - While a read of a page is in flight, the caller does not write or discard that page.
 *
 * Functions return 0 or a positive count on success, and -errno on failure. Outputs are written only on success.
 */
#ifndef CLIENT_STORE_H
#define CLIENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE 4096u
/* Longest run of one request, in pages. */
#define STORE_RUN_MAX 256u

struct store; /* opaque to its users, see struct store below */
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

/* Result of a request. A run fails as a whole. */
struct store_done {
	uint64_t cookie;
	/*
	 * 0 on success, or:
	 *
	 * - -EIO: the donor that held the page is gone
	 * - -EBADMSG: the bytes that came back are not those that were written
	 * - -ENOSPC: no donor has room (writes)
	 * - -ETIMEDOUT
	 */
	int status;
};

struct store_stats {
	uint64_t pages_live;              /* pages with contents on donors */
	uint64_t bytes_leased;            /* slabs held, in bytes */
	uint64_t bytes_available;         /* bytes that could still be leased, by the donors' last figures */
	uint64_t reads, writes, discards; /* pages, since the store was opened */
	uint64_t zero_reads;              /* pages read without the network */
	uint64_t checksum_errors;
	uint64_t lost_pages;     /* pages lost with their donors */
	uint64_t missing_pages;  /* lost pages that have not been written or discarded since */
	uint64_t slabs_lacking;  /* replicas that chunks lack, because donors are lost and no rebuild has finished */
	uint64_t rebuilt_pages;  /* pages copied to new replicas */
	uint64_t repaired_pages; /* pages that one donor returned corrupt, and that were rewritten there */
	uint64_t scrubbed_pages; /* pages at rest that were found intact; each replica counts */
	uint64_t hedges;         /* reads also sent to a second replica, because the first was slow */
	uint64_t hedges_won;     /* hedges that the second replica answered first */
	uint64_t backup_pages;   /* pages that are on the local backup */
	uint64_t backup_behind;  /* pages that are not on the backup yet */
	uint64_t backup_reads;   /* pages read from the backup */
	uint64_t backup_writes;  /* pages written to the backup alone, because no donor had room */
	uint64_t kept_pages;     /* pages now on the backup alone */
	uint64_t returned_pages; /* pages brought back from the backup to donors */
	uint64_t memory;         /* this process's memory for bookkeeping and buffers, in bytes */
	bool encrypted;          /* pages are sealed before they leave */
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
	bool (*quiet)(const struct store_queue *); /* NULL means always */
	void (*discard)(struct store *, uint64_t page, uint64_t count);
	bool (*same)(const struct store *, uint64_t page, const void *data);
	void (*stats)(const struct store *, struct store_stats *);
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

/* Registers memory for I/O. The memory still belongs to the caller, and must outlive the registration. Call this before
   the queues that use the memory run, or while none of them is inside a call. Any thread may call it. */
int store_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer);
/* Ends the registration. NULL is allowed. */
void store_deregister(struct store *store, struct store_buffer *buffer);

/* Opens a queue, which belongs to the calling thread. Only that thread may use the queue, and it must live as long as
   the queue: the kernel finishes a queue's I/O on behalf of the thread that opened it. May block on the network, up to
   the connect deadline. */
int store_queue_open(struct store *store, struct store_queue **ret_queue);
/* Closes the queue. No request may be in flight. NULL is allowed. */
void store_queue_close(struct store_queue *queue);

/* Takes up to @count requests, in order. Returns how many it took: fewer if the queue is full, 0 if none fits. The
   caller then polls. Never blocks, allocates or logs, except when a donor is declared dead. */
int store_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
/* Takes up to @max completions without waiting. Returns how many it wrote. */
int store_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
/* Returns a descriptor. After store_arm() has returned 0, the descriptor becomes readable when store_poll() may have a
   completion. */
int store_queue_fd(const struct store_queue *queue);
/* Prepares the queue for sleeping. Returns 0, or 1 if store_poll() must be called now. */
int store_arm(struct store_queue *queue);
/*
 * Returns true if the queue waits only for answers to requests in flight.
 *
 * If this is false, the queue also waits for an answer that no request needs, such as the slower answer to a read that
 * was sent to two replicas. Before that answer has been polled, a recalled slab may not be given back. So a thread with
 * no request in flight may sleep without arming the queue only if this returns true. Only the queue's thread may call
 * it.
 */
bool store_quiet(const struct store_queue *queue);

/* Makes pages read as zeroes, and gives their memory back. Never blocks on the network. Any thread may call it. */
void store_discard(struct store *store, uint64_t page, uint64_t count);

/*
 * Returns true if writing the STORE_PAGE bytes at @data to @page would change nothing. There are two such cases:
 *
 * - The last completed write of the page had these bytes. The checksum shows this, and errs once in 2^64.
 * - The page reads as zeroes, and @data is all zero.
 *
 * Returns false for a lost page. Does not use the network. Any thread may call it, while no I/O on that page is in
 * flight.
 */
bool store_same(const struct store *store, uint64_t page, const void *data);

/* Stores a snapshot of the figures. Any thread may call it. */
void store_stats(const struct store *store, struct store_stats *ret_stats);
/* Closes the store, and gives all its leases back. All its queues must be closed. NULL is allowed. */
void store_close(struct store *store);

/* Opens a store whose pages are in local memory. Its requests complete at once and never fail. Returns 0, -EINVAL if
   @pages is 0 or too large, or -ENOMEM. */
int store_open_memory(uint64_t pages, struct store **ret_store);

#endif
