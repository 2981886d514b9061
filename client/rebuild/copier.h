/*
 * copier: copies pages for the chores of the rebuild thread (rebuild.h). A chore chooses the pages and the donors.
 * The copier owns what all chores share: the queue, the buffer, the window and the pace.
 *
 * Theory of operation. A chore calls copier_begin() to start a visit to a few pages of one chunk. If the visit
 * needs a window, the copier first opens it and waits until no write is in flight there. Then it reads the visit's
 * pages in several copies of at most COPIER_PART pages. When a read is answered, the chore's answered() is called.
 * There the chore asks for the next request of this copy, such as a write to another donor (copier_write()). If it
 * asks for none, the copy is complete. When all copies are complete, the visit ends.
 *
 *     IDLE --copier_begin()--> ENTERING --no write in flight--> COPYING --all answered--> IDLE
 *           \                      +------writes take too long---------------------------> IDLE
 *            +---------without a window-----------------------> COPYING
 *
 * Copies are short and few, so that a donor can serve other requests in between. Two run at once, so that one is read
 * while the other is written. If a read of several pages fails, its pages are read one by one.
 *
 * Window. `far->window` names the pages that no new write may enter. The program's requests have priority, so
 * visits are short. If writes that are already in flight do not end soon, the visit ends without copying anything.
 *
 * Pace. The rate is far_config.rebuild_rate, and a quarter of it while other queues have requests in flight. While
 * a donor recalls slabs (`hurry`), the rate is not limited, because pages that are not moved in time may be lost.
 *
 * Threads: the rebuild thread.
 */
#ifndef CLIENT_COPIER_H
#define CLIENT_COPIER_H

#include "client/far_store.h"

/* The most pages of a visit, and of a copy, and the most copies at once. Measured with four busy processes on two
   processors, while a donor was drained: with 4 copies at once, reads took 1.5 times as long at p99. */
#define COPIER_PAGES 128u
#define COPIER_PART 16u
#define COPIER_COPIES 2u
/* How often to check if the writes in a window, or the pieces that use an old slot, have ended. */
#define COPIER_LOOK_NS UINT64_C(20000)
/* Times at which a step is due: at once, or only after an event. */
#define COPIER_NOW UINT64_C(0)
#define COPIER_EVENT UINT64_MAX

/* A row of a table of states. */
struct state_row {
	const char *name;
	unsigned next; /* the states that may follow, one bit each */
};

enum copy_state {
	COPY_FREE,
	COPY_DOUBTING, /* reads from a donor that may have changed the pages: waits for that donor's answer */
	COPY_READING,  /* reads: waits for the answer of any donor, or of the backup */
	COPY_WRITING,  /* writes: waits for the answer of a donor, or of the backup */
	COPY_STATES
};
struct copy {
	enum copy_state state;
	uint64_t page;
	uint32_t count;
	uint8_t *bytes;
	bool under_way; /* a request of this copy is not answered yet */
	int status;     /* the status of the last answer */
	unsigned slot;  /* for the chore to use; 0 at first */
};

struct chore;
struct chore_kind {
	const char *name;
	bool urgent; /* while this chore has work, chores after it in rebuild.c wait */
	/* Looks for work. Calls copier_begin(), or returns when to look again. */
	uint64_t (*begin)(struct chore *chore);
	/* Called when the copy's request was answered. Asks for the copy's next request by copier_read() or
	   copier_write(), or for none if the copy is complete. */
	void (*answered)(struct chore *chore, struct copy *copy);
	void (*end)(struct chore *chore);
};
struct chore {
	const struct chore_kind *kind;
	struct copier *copier;
};

struct visit {
	struct chore *chore;
	uint64_t page, end;       /* pages of one chunk; during the visit, `page` is the next page to read */
	enum integrity_kind kind; /* only pages of this kind are read */
	bool window;              /* the visit needs a window */
	bool doubt;               /* copies begin as COPY_DOUBTING */
	unsigned donor;           /* the donor to read from, if `doubt` is set */
};

enum copier_state {
	COPIER_IDLE,     /* no visit: waits until a chore has work */
	COPIER_ENTERING, /* the window is open: waits until no write is in flight in it */
	COPIER_COPYING,  /* copies are running: waits for answers to their requests */
	COPIER_STATES
};
struct copier {
	struct far *far;
	uint64_t opened, now; /* times of copier_open(), and of the current step */
	uint32_t pages;       /* the most pages of a visit */
	uint8_t *bytes;       /* a buffer for all copies */
	size_t length;        /* its size in bytes */
	struct store_buffer *buffer;
	struct store_queue *queue;
	struct far_counters *counters;
	unsigned in_flight;
	struct chunk_view view; /* the chunk's slots, as copier_hold() has found them */
	uint32_t epoch;         /* the epoch in which the chunk is counted */
	uint64_t due;           /* when the next visit may copy, according to the pace */
	enum copier_state state;
	struct copy copies[COPIER_COPIES];
	unsigned copies_max;
	/* The current visit. */
	struct visit visit;
	uint64_t first;    /* its first page */
	uint64_t patience; /* when the copier stops waiting for writes */
	bool failed;       /* set by the chore: no more copies begin */
	bool again;        /* a read failed: after all answers, the visit continues at `page` */
	uint64_t singles;  /* pages before this page are read one by one */
	uint64_t copied;   /* pages copied, counted by the chore */
};

/* Opens buffer and queue at @now. Called on the rebuild thread. Returns 0 or -errno. */
int copier_open(struct copier *copier, struct far *far, uint64_t now);
/* Closes buffer and queue. No request may be in flight. */
void copier_close(struct copier *copier);
/* Takes the answers that have arrived, at @now. */
void copier_poll(struct copier *copier, uint64_t now);
/* Continues the current visit. Returns when to call this again. */
uint64_t copier_step(struct copier *copier);

/* Begins a visit in copier->epoch. The copier must be IDLE. Returns COPIER_NOW. */
uint64_t copier_begin(struct copier *copier, const struct visit *visit);
/* Send the copy's next request: a read from any donor, or a write to @donor alone, which may be FAR_ON_BACKUP. */
void copier_read(struct copier *copier, struct copy *copy);
void copier_write(struct copier *copier, struct copy *copy, unsigned donor);

/* Adds one to the count of the READY chunk of @page, so that its slabs are not released. Sets copier->view and
   copier->epoch. Returns false if the chunk is not READY. */
bool copier_hold(struct copier *copier, uint64_t page);
/* Subtracts @count, which was counted in copier->epoch, from the count of the chunk of @page. */
void copier_drop(const struct copier *copier, uint64_t page, uint32_t count);
bool copier_is_live(const struct copier *copier, uint64_t page);
/* Returns true if a published piece still uses slots that the chunk had before its last change. */
bool copier_is_unsettled(const struct copier *copier, uint32_t chunk);
/* Returns the part of @rate that may be used now: a quarter while other queues have requests in flight, otherwise
   all. */
uint64_t copier_rate(const struct copier *copier, uint64_t rate);

#endif
