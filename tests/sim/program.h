/*
 * program: a simulated process that uses far memory and checks it.
 *
 * Theory of operation. A program uses the real store (client/far.h), with its control thread and a queue for each
 * worker. Workers write, read and discard runs of pages, as the contract of store.h allows, and compare every answer
 * with the reference (reference.h). A worker polls its queue, or sleeps on the queue's descriptor until an answer
 * comes. If the store does not wake a sleeping worker, the answer is late, and the history fails.
 *
 * If the program has a state file, its process may be killed or end at any moment. The next process adopts the store
 * from the file.
 *
 * Threads: one; see task.h.
 */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include "client/far.h"
#include "tests/sim/reference.h"
#include "tests/sim/task.h"

#define PROGRAM_WORKERS_MAX 3u
#define PROGRAM_DEPTH_MAX 6u
#define PROGRAM_RUN_MAX 8u
#define PROGRAM_CHUNKS_MAX 16u

/* The errors and losses that are no failure in this history. The first four may happen to any page. */
struct program_excuses {
	bool lost;    /* -EIO */
	bool damaged; /* -EBADMSG */
	bool full;    /* -ENOSPC, of writes */
	bool late;    /* -ETIMEDOUT, of writes */
	bool donors;  /* a donor may be lost */
};

struct program_config {
	struct far_config far;
	uint64_t chunk_pages;
	unsigned workers, depth, run;
	uint64_t think_ns; /* longest pause between two polls */
	unsigned writes;   /* average number of writes in ten requests */
	bool keeps_state;
	bool rests; /* makes no request for a while after a fault */
	struct program_excuses excuses;
	uint64_t bound_ns; /* longest time to answer a request */
	unsigned (*lent)(
	    const uint8_t id[]); /* donors_lend_to() of donors.h, which cannot be included together with client/ */
};

struct program_slot {
	struct store_io io;
	bool active;
	uint64_t since, stalled; /* the task's time and process.stalled at the submission */
	uint64_t lost;           /* number of pages that the store had lost at the submission */
	uint64_t refusals;       /* number of writes that disks had refused at the submission */
};

struct worker {
	struct program *program;
	struct process *process;
	struct store *store;
	struct store_queue *queue;
	struct store_buffer *buffer;
	uint8_t *data;
	struct program_slot slots[PROGRAM_DEPTH_MAX];
	unsigned active;
	uint64_t discard_page; /* the first page of the discard in progress, if discard_count is not 0 */
	uint32_t discard_count;
};

enum program_phase {
	PROGRAM_DOWN,    /* no process */
	PROGRAM_OPENS,   /* calls far_open() */
	PROGRAM_WORKS,   /* its workers make requests */
	PROGRAM_DRAINS,  /* makes no new requests; when all are answered, the program does `then` */
	PROGRAM_EMPTIES, /* waits until its donors have all slabs back */
	PROGRAM_CLOSES,
};
enum program_end { PROGRAM_CLOSE, PROGRAM_EMPTY, PROGRAM_LEAVE };

struct program {
	struct program_config config;
	char name[8];
	unsigned host, starts;
	enum program_phase phase;
	enum program_end then;
	struct process *process; /* the present process, or the last one */
	struct store *store;
	int state_fd;
	int open_status;
	struct reference reference;
	struct worker *workers[PROGRAM_WORKERS_MAX];
	uint64_t rests_until;             /* its workers begin no request before this time */
	bool repeat;                      /* the next process repeats the requests that were in flight */
	bool excused[PROGRAM_CHUNKS_MAX]; /* chunks that may have two replicas in one domain for now */
	/* Counters. */
	uint64_t good, failed, discards, adoptions, hedges, rebuilt;
};

void program_open(struct program *program, unsigned index, unsigned host, const struct program_config *config);
/* Starts a process. It adopts the store of the last process, or opens a new store if there is none or if @anew is
   true. */
void program_start(struct program *program, bool anew);
void program_kill(struct program *program);
/* Tells the program to end. */
void program_end(struct program *program, enum program_end end);
/* Fails the history if a request is late, if the store has lost a donor without an excuse, or if a donor broke the
   protocol. */
void program_check(const struct program *program);
/*
 * Fails the history if two replicas of a chunk are on donors of the same domain, unless one of them will be detached
 * (`excused`). @domains has the domain of each donor, or NULL if it shares none.
 */
void program_check_apart(struct program *program, const char *const domains[]);
/* Returns true if no chunk has a surplus replica. */
bool program_is_settled(const struct program *program);
/* Closes a program whose process has ended. */
void program_close(struct program *program);

#endif
