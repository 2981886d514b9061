/*
 * copier: carries out the chores of the rebuild thread (rebuild.h). A chore chooses pages and donors. The copier owns
 * the queue, the buffer, the window and the pace.
 *
 * Theory of operation. The thread has a queue of its own (far_queue_direct) and one buffer. A chore begins a visit to a
 * few pages of one chunk. The copier reads the pages of one kind, and reports each answer to the chore. The chore then
 * asks for a write, or the copy is complete. A copy is a part of the visit that is under way. Copies are short, so that
 * the donor can serve other requests between them. Several copies are under way at once, so that one is read while
 * another is written. If several pages cannot be read together, they are read one by one.
 *
 *     IDLE --copier_begin()--> ENTERING --no writer is left--> COPYING --all answered--> IDLE
 *           \                      +------writers are late-----------------------------> IDLE
 *            +---------without a window----------------------> COPYING
 *
 * Window. `far->window` keeps new writers out of the visit's pages. The copier then waits for the writes that are
 * already under way there. Requests of the program come first, so visits are short. If writers do not leave in time, the
 * visit ends, and nothing is copied.
 *
 * Pace. The rate is far_config.rebuild_rate, and a quarter of it while other queues have requests in flight. While a
 * donor wants memory back (`hurry`), the rate is not limited, because pages that are not moved in time may be lost.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_COPIER_H
#define CLIENT_COPIER_H

#include "client/far_store.h"

/* The most pages of a visit, and of a copy. */
#define COPIER_PAGES 64u
#define COPIER_PART 16u
#define COPIER_COPIES (COPIER_PAGES / COPIER_PART)
/* How often the thread looks if writers have left a window or a slot. */
#define COPIER_LOOK_NS UINT64_C(20000)
/* The times of a step that is due at once, or only after an event. */
#define COPIER_NOW UINT64_C(0)
#define COPIER_EVENT UINT64_MAX

/* A row of a table of states. */
struct state_row {
	const char *name;
	unsigned next; /* the states that may follow, one bit each */
};

enum copy_state {
	COPY_FREE,     /* not in use, until the copier begins it */
	COPY_DOUBTING, /* reads from a suspect: waits for that donor's answer */
	COPY_READING,  /* reads: waits for the answer of any donor, or of the backup */
	COPY_WRITING,  /* writes: waits for the answer of a donor, or of the backup */
	COPY_STATES
};
struct copy {
	enum copy_state state;
	uint64_t page;
	uint32_t count;
	uint8_t *bytes;
	bool under_way; /* its request is not answered yet */
	int status;     /* the status of the answer */
	unsigned slot;  /* the chore's to use; 0 at first */
};

struct chore;
struct chore_kind {
	const char *name;
	bool urgent; /* while this chore has work, later chores of rebuild.c wait */
	/* Looks for work. Calls copier_begin(), or returns when to look again. */
	uint64_t (*begin)(struct chore *chore);
	/* The copy's request was answered. The chore asks for the next request by copier_read() or copier_write(). If
	   it does not, the copy is complete. */
	void (*answered)(struct chore *chore, struct copy *copy);
	/* The visit is over. */
	void (*end)(struct chore *chore);
};
struct chore {
	const struct chore_kind *kind;
	struct copier *copier;
};

struct visit {
	struct chore *chore;
	uint64_t page, end;       /* pages of one chunk; during the visit, `page` is the next page to read */
	enum integrity_kind kind; /* the kind of pages to read */
	bool window;              /* the visit keeps writers out */
	bool doubt;               /* copies begin with COPY_DOUBTING */
	unsigned donor;           /* the suspect, if `doubt` is set */
};

enum copier_state {
	COPIER_IDLE,     /* no visit: waits for a chore that has work */
	COPIER_ENTERING, /* the window is open: waits until queues have ended their writes in it */
	COPIER_COPYING,  /* copies are under way: waits for answers to their requests */
	COPIER_STATES
};
struct copier {
	struct far *far;
	uint64_t opened, now; /* the time of copier_open(), and the time of this step */
	uint32_t pages;       /* pages of the buffer */
	uint8_t *bytes;
	struct store_buffer *buffer;
	struct store_queue *queue;
	struct far_counters *counters;
	unsigned in_flight;     /* requests under way */
	struct chunk_view view; /* the held chunk, as copier_hold() found it */
	uint32_t epoch;         /* the epoch in which the chunk is held */
	uint64_t due;           /* when the next visit may copy */
	enum copier_state state;
	struct copy copies[COPIER_COPIES];
	unsigned copies_max; /* the most copies that may be under way */
	/* The current visit. */
	struct visit visit;
	uint64_t first;    /* the visit's first page */
	uint64_t patience; /* when waiting for writers ends */
	bool failed;       /* set by the chore: no more copies begin */
	bool again;        /* a copy could not be read: the visit goes on at `page` once all are answered */
	uint64_t singles;  /* pages below this one are read one by one */
	uint64_t copied;   /* pages copied: counted by the chore */
};

/* Opens buffer and queue, on the rebuild thread, at @now. Returns 0 or -errno. */
int copier_open(struct copier *copier, struct far *far, uint64_t now);
/* Closes buffer and queue. No request may be in flight. */
void copier_close(struct copier *copier);
/* Takes the answers that have come, at @now. */
void copier_poll(struct copier *copier, uint64_t now);
/* Continues the visit. Returns when to call this again. */
uint64_t copier_step(struct copier *copier);

/* Begins a visit of the chore, in copier->epoch. No other visit may be under way. Returns COPIER_NOW. */
uint64_t copier_begin(struct copier *copier, const struct visit *visit);
/* Ask for the copy's next request: a read from any donor, or a write to @donor alone, which may be FAR_ON_BACKUP. */
void copier_read(struct copier *copier, struct copy *copy);
void copier_write(struct copier *copier, struct copy *copy, unsigned donor);

/* Adds one to the count of the READY chunk of @page, so that its slabs are not given back. Sets copier->view and
   copier->epoch. Returns false if the chunk is not READY. */
bool copier_hold(struct copier *copier, uint64_t page);
/* Takes @count, which was counted in copier->epoch, off the count of the chunk of @page. */
void copier_drop(const struct copier *copier, uint64_t page, uint32_t count);
bool copier_is_live(const struct copier *copier, uint64_t page);
/* Returns true if some published piece still uses earlier slots of the chunk. */
bool copier_is_unsettled(const struct copier *copier, uint32_t chunk);
/* Returns the part of @rate that may be used now: a quarter while other queues have requests in flight, else all. */
uint64_t copier_rate(const struct copier *copier, uint64_t rate);

#endif
