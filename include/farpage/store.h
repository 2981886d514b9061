/*
 * store: far memory as an array of pages.
 *
 * Theory of operation. A store holds `pages` pages of STORE_PAGE bytes, all zero at first. Threads reach it
 * through queues: each queue belongs to one thread, takes reads and writes of page runs, and is polled for
 * their completions. Three stores exist: far memory on donors (client/far.h), an array in local memory, and a
 * wrapper that injects faults into another store; pager and blockdev know only this header.
 *
 * Invariants, whatever fails:
 *  1. A read returns the bytes of the last completed write of that page, or an error: never older bytes, never
 *     another page's, never another client's.
 *  2. A write is complete when every live replica has it.
 *  3. A page never written, or discarded, reads as zeroes and costs neither network nor donor memory.
 * The caller's side of it: while a write of a page is in flight, on whatever queue, the caller neither reads,
 * writes nor discards that page; while a read of it is in flight, it neither writes nor discards it.
 *
 * All functions return 0 or a positive count on success and -errno on failure; outputs are written only on
 * success.
 */
#ifndef FARPAGE_STORE_H
#define FARPAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE 4096u
/* Longest run of one request, in pages. */
#define STORE_RUN_MAX 256u

struct store; /* opaque; begins with the table of operations below */
struct store_queue;
struct store_buffer;

enum store_op { STORE_READ, STORE_WRITE };

struct store_io {
	enum store_op op;
	uint32_t count; /* pages in the run, 1 .. STORE_RUN_MAX */
	uint64_t page;  /* first page */
	void *data;     /* count * STORE_PAGE bytes inside @buffer; untouched by the caller until the completion */
	struct store_buffer *buffer;
	uint64_t cookie; /* comes back in the completion */
};

struct store_done {
	uint64_t cookie;
	int status; /* 0; -EIO the donor that held it is gone; -EBADMSG what came back is not what was written;
		       -ENOSPC no donor has room (writes); -ETIMEDOUT; a run fails as a whole */
};

struct store_stats {
	uint64_t pages_live;              /* pages with contents on donors */
	uint64_t bytes_leased;            /* slabs held */
	uint64_t bytes_available;         /* slabs that could still be leased, all replicas together, as last heard */
	uint64_t reads, writes, discards; /* pages, since open */
	uint64_t zero_reads;              /* pages read without network */
	uint64_t checksum_errors;
	uint64_t lost_pages;    /* pages whose donor went */
	uint64_t missing_pages; /* of those, the ones that nobody has written or discarded since */
	uint64_t
	    slabs_lacking; /* replicas that slabs have too few: those of donors that went, and are not made anew yet */
	uint64_t rebuilt_pages;  /* pages copied to make them anew */
	uint64_t repaired_pages; /* pages that one donor sent back changed, and that were written there anew */
	uint64_t scrubbed_pages; /* pages, of each replica, that were found right though nobody had asked for them */
	uint64_t hedges;         /* reads asked of a second replica, too, for the first was overdue */
	uint64_t hedges_won;     /* of these, those that the second one answered first */
	uint64_t backup_pages;   /* pages that are on the local backup as well, or alone */
	uint64_t backup_behind;  /* pages that are not yet */
	uint64_t backup_reads;   /* pages read there */
	uint64_t backup_writes;  /* pages written there alone, for no donor had room */
	uint64_t kept_pages;     /* pages that are there alone: their donors went */
	uint64_t returned_pages; /* pages that were, and are on donors again */
	uint64_t memory;         /* bytes of this process's memory used for bookkeeping and buffers */
	bool encrypted;          /* pages leave encrypted and authenticated */
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
	bool (*quiet)(const struct store_queue *); /* NULL: always */
	void (*discard)(struct store *, uint64_t page, uint64_t count);
	bool (*same)(const struct store *, uint64_t page, const void *data);
	void (*stats)(const struct store *, struct store_stats *);
	void (*close)(struct store *);
};

/* What every store and every queue begins with. */
struct store {
	const struct store_ops *ops;
	uint64_t pages;
};
struct store_queue {
	struct store *store;
};

/* Registers memory for I/O; it stays the caller's and outlives the registration. Before the queues that use it
   run, or from any thread while none of them is in a call. */
int store_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer);
void store_deregister(struct store *store, struct store_buffer *buffer);

/* Opens a queue, which belongs to the calling thread: it alone uses it, and lives as long (the kernel finishes a
   queue's I/O in the name of the thread that opened it). May block on the network for the connect deadline. */
int store_queue_open(struct store *store, struct store_queue **ret_queue);
/* Nothing may be in flight. Takes NULL. */
void store_queue_close(struct store_queue *queue);

/* Takes up to @count requests, in order; returns how many (fewer when the queue is full, 0 when none fits: poll it).
   Never blocks, allocates or logs, except in the decision about a dead donor. */
int store_submit(struct store_queue *queue, const struct store_io *ios, unsigned count);
/* Takes completions without waiting; returns how many were written. */
int store_poll(struct store_queue *queue, struct store_done *dones, unsigned max);
/* Readable when there is something to poll, after store_arm() has returned 0; store_arm() returns 1 when there is
   something right now. */
int store_queue_fd(const struct store_queue *queue);
int store_arm(struct store_queue *queue);
/* Whether nothing is under way but what was asked for and is not answered yet. Else some answer is still to come that
   nobody waits for any more, as of a read that two replicas were asked for; memory may be kept from donors until it has
   been polled for. So who has nothing in flight may sleep unarmed only while this is true. The queue's thread. */
bool store_quiet(const struct store_queue *queue);

/* Makes pages read as zeroes again and gives their memory back; never blocks on the network; any thread. */
void store_discard(struct store *store, uint64_t page, uint64_t count);

/*
 * Whether a write of the STORE_PAGE bytes at @data to @page would change nothing: the page was written, and the last
 * completed write left these bytes (told by its checksum: wrong with a chance of 2^-64); or it reads as zeroes and
 * @data is all zero. False for a page that was lost. No network. Any thread, while no I/O on that page is in flight.
 */
bool store_same(const struct store *store, uint64_t page, const void *data);

/* Any thread; a snapshot. */
void store_stats(const struct store *store, struct store_stats *ret_stats);
/* Gives every lease back. All queues are closed. Takes NULL. */
void store_close(struct store *store);

/* The array in local memory: complete at once, never fails. -EINVAL: no pages; -ENOMEM. */
int store_open_memory(uint64_t pages, struct store **ret_store);

/* Faults laid over @inner (owned by the caller): each field is a chance in 1/65536 per request. */
struct store_faults {
	uint64_t seed;
	uint16_t read_error, write_error, corrupt; /* -EIO, -EIO, -EBADMSG */
	uint16_t delay;                            /* the completion comes `delay_polls` polls later */
	unsigned delay_polls;
};
int store_open_faulty(struct store *inner, const struct store_faults *faults, struct store **ret_store);

#endif
