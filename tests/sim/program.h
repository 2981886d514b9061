/*
 * program: a simulated process that uses far memory and checks it.
 *
 * Theory of operation. A program has the real store (client/far.h), with its control thread and a queue for each
 * worker. Workers write, read and discard runs of pages within the contract of store.h. They compare every answer with
 * the reference. A worker polls, or sleeps on the descriptor of its queue until an answer comes. So an answer that does
 * not wake the worker is found as a late one.
 *
 * With a state file the process may be killed at any moment, or leave. The next process adopts the store from the file.
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

/* The errors and losses that this history excuses. The first four are errors that any page may have. */
struct program_excuses {
	bool lost;    /* -EIO */
	bool damaged; /* -EBADMSG */
	bool full;    /* -ENOSPC, of writes */
	bool late;    /* -ETIMEDOUT, of writes */
	bool donors;  /* the store may lose donors */
};

struct program_config {
	struct far_config far;
	uint64_t chunk_pages;
	unsigned workers, depth, run;
	uint64_t think_ns; /* longest pause between two polls */
	unsigned writes;   /* number of writes in ten requests on average */
	bool keeps_state;
	bool rests; /* makes no request for a while after a fault */
	struct program_excuses excuses;
	uint64_t bound_ns; /* longest time to answer a request */
	unsigned (*lent)(
	    const uint8_t id[]); /* donors_lend_to() of donors.h, which does not go together with client/ */
};

struct program_slot {
	struct store_io io;
	bool active;
	uint64_t since, stalled; /* task time, and the process's `stalled`, at the submission */
	uint64_t lost;           /* pages that the store had lost at the submission */
	uint64_t refusals;       /* writes that disks had refused at the submission */
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
	uint64_t discard_page; /* of the discard under way, if discard_count */
	uint32_t discard_count;
};

enum program_phase {
	PROGRAM_DOWN,    /* no process */
	PROGRAM_OPENS,   /* far_open() */
	PROGRAM_WORKS,   /* its workers make requests */
	PROGRAM_DRAINS,  /* makes no more requests; when all are answered, does `then` */
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
	struct process *process; /* the last process */
	struct store *store;
	int state_fd;
	int open_status;
	struct reference reference;
	struct worker *workers[PROGRAM_WORKERS_MAX];
	uint64_t rests_until;             /* its workers begin no request before this time */
	bool repeat;                      /* the next process repeats the requests that were under way */
	bool excused[PROGRAM_CHUNKS_MAX]; /* chunks that may have two replicas in a domain, because one is to go */
	/* Counters. */
	uint64_t good, failed, discards, adoptions, hedges, rebuilt;
};

void program_open(struct program *program, unsigned index, unsigned host, const struct program_config *config);
/* Starts a process with the store that the last process left, or with a new store at first or if @anew. */
void program_start(struct program *program, bool anew);
void program_kill(struct program *program);
/* Tells the program to end. */
void program_end(struct program *program, enum program_end end);
/* Fails the history if a request is late, if the store loses a donor that it must not lose, or if a donor broke the
   protocol. */
void program_check(const struct program *program);
/*
 * Fails the history if two replicas of a chunk are on donors of the same domain, unless one of them is to go. @domains
 * has the donors' domains; NULL is a domain of its own.
 */
void program_check_apart(struct program *program, const char *const domains[]);
/* Returns true if no chunk has a surplus replica. */
bool program_is_settled(const struct program *program);
/* Closes a program whose process has ended. */
void program_close(struct program *program);

#endif
