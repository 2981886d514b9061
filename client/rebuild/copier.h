/*
 * copier: carries out the chores of the rebuild thread (rebuild.h). A chore chooses pages and donors. The copier has the
 * queue, the buffer, the window and the pace.
 *
 * Theory of operation. The thread has a queue of its own (far_queue_direct) and one buffer. A chore begins a visit to a
 * few pages of one chunk. The copier reads the visit's pages of one kind, and tells the chore of each answer. The chore
 * then has the pages written, or is done with them. A copy is a part of the visit that is under way. Copies are short so
 * that the donor can serve other requests between them. Several are under way at once, so that one is read while another
 * is written. If several pages cannot be read together, they are read one by one.
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
/* How often the thread looks whether writers have left a window or a slot. */
#define COPIER_LOOK_NS UINT64_C(20000)
/* When a step is due, if that is at once, or only after an event. */
#define COPIER_NOW UINT64_C(0)
#define COPIER_EVENT UINT64_MAX

/* A row of a table of states. */
struct state_row {
	const char *name;
	unsigned next; /* the states that may follow, one bit each */
};

enum copy_state {
	COPY_FREE,     /* has no pages: waits for the copier to begin it */
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
	bool under_way; /* its request was not answered yet */
	int status;     /* of the answer */
	unsigned slot;  /* for the chore; 0 at first */
};

struct chore;
struct chore_kind {
	const char *name;
	bool urgent; /* while the chore has something to do, those after it in rebuild.c wait */
	/* Looks for something to do. Calls copier_begin(), or returns when to look again. */
	uint64_t (*begin)(struct chore *chore);
	/* The copy's request was answered. Asks for its next request by copier_read() or copier_write(). If it does not,
	   the copy is done. */
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
	uint64_t page, end;       /* pages of one chunk; while the visit goes on, `page` is the next to be read */
	enum integrity_kind kind; /* of the pages to be read */
	bool window;              /* keeps writers out */
	bool doubt;               /* copies begin with COPY_DOUBTING */
	unsigned donor;           /* the suspect */
};

enum copier_state {
	COPIER_IDLE,     /* no visit: waits for a chore that has something to do */
	COPIER_ENTERING, /* the window is open: waits until queues have ended their writes in it */
	COPIER_COPYING,  /* copies are under way: waits for answers to their requests */
	COPIER_STATES
};
struct copier {
	struct far *far;
	uint64_t opened, now; /* the time of copier_open(), and of this step */
	uint32_t pages;       /* of the buffer */
	uint8_t *bytes;
	struct store_buffer *buffer;
	struct store_queue *queue;
	struct far_counters *counters;
	unsigned in_flight;     /* requests under way */
	struct chunk_view view; /* of the chunk as it was held */
	uint32_t epoch;         /* in which the chore counts in its chunk */
	uint64_t due;           /* when the next visit may copy */
	enum copier_state state;
	struct copy copies[COPIER_COPIES];
	unsigned copies_max; /* that may be under way */
	/* The current visit. */
	struct visit visit;
	uint64_t first;    /* its first page */
	uint64_t patience; /* when waiting for writers ends */
	bool failed;       /* set by the chore: no more copies begin */
	bool again;        /* a copy could not be read: the visit goes on at `page` once all are answered */
	uint64_t singles;  /* pages below are read one by one */
	uint64_t copied;   /* pages copied: counted by the chore */
};

/* Opens buffer and queue, on the rebuild thread, at @now. Returns 0 or -errno. */
int copier_open(struct copier *copier, struct far *far, uint64_t now);
/* Closes them. No request may be in flight. */
void copier_close(struct copier *copier);
/* Takes answers, at @now. */
void copier_poll(struct copier *copier, uint64_t now);
/* Goes on with the visit. Returns when to call it again. */
uint64_t copier_step(struct copier *copier);

/* Begins a visit of the chore, in copier->epoch. No other may be under way. Returns COPIER_NOW. */
uint64_t copier_begin(struct copier *copier, const struct visit *visit);
/* Ask for the copy's next request: a read from any donor, or a write to @donor alone, which may be FAR_ON_BACKUP. */
void copier_read(struct copier *copier, struct copy *copy);
void copier_write(struct copier *copier, struct copy *copy, unsigned donor);

/* Counts one more in the READY chunk of @page, so that its slabs are not given back. Sets copier->view and
   copier->epoch. Returns false if the chunk is not READY. */
bool copier_hold(struct copier *copier, uint64_t page);
/* Takes @count off the chunk of @page, which is counted in copier->epoch. */
void copier_drop(const struct copier *copier, uint64_t page, uint32_t count);
bool copier_is_live(const struct copier *copier, uint64_t page);
/* Returns true if some published piece still goes by earlier slots of the chunk. */
bool copier_is_unsettled(const struct copier *copier, uint32_t chunk);
/* Returns the part of @rate that may be used now: a quarter while other queues have requests in flight, else all. */
uint64_t copier_rate(const struct copier *copier, uint64_t rate);

#endif
