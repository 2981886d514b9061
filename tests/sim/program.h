/*
 * program: a simulated process that uses far memory, and what it expects of it.
 *
 * Theory of operation. The real store (client/far.h), with its control thread and a queue for each worker. Workers
 * write, read and discard runs of pages within the contract of store.h, and hold every answer against the reference.
 * A worker polls, or sleeps on its queue's descriptor for as long as nothing comes: an answer that does not wake it
 * shows as one that is late.
 *
 * With a state file the process may be killed at any moment, or leave; the next one adopts what is in the file then.
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

/* Which errors this history excuses, whatever the page. */
struct program_excuses {
	bool lost;    /* -EIO */
	bool damaged; /* -EBADMSG */
	bool full;    /* -ENOSPC, of writes */
	bool late;    /* -ETIMEDOUT, of writes */
};

struct program_config {
	struct far_config far;
	uint64_t chunk_pages;
	unsigned workers, depth, run;
	uint64_t think_ns; /* between two looks */
	unsigned writes;   /* of ten requests */
	bool keeps_state;
	struct program_excuses excuses;
	uint64_t bound_ns; /* within which each request is answered */
};

struct program_slot {
	struct store_io io;
	bool active;
	uint64_t since, stalled; /* task time; how long the process had been stalled then */
	uint64_t lost;           /* how many pages the store had lost then */
	uint64_t refusals;       /* and disks had refused */
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
	uint64_t discard_page; /* being discarded */
	uint32_t discard_count;
};

enum program_phase {
	PROGRAM_DOWN,    /* no process */
	PROGRAM_OPENS,   /* far_open() */
	PROGRAM_WORKS,   /* */
	PROGRAM_DRAINS,  /* starts no more requests; with none left it goes on as `then` says */
	PROGRAM_EMPTIES, /* waits until its donors have everything back */
	PROGRAM_CLOSES,
};
enum program_end { PROGRAM_CLOSE, PROGRAM_EMPTY, PROGRAM_LEAVE };

struct program {
	struct program_config config;
	char name[8];
	unsigned host, starts;
	enum program_phase phase;
	enum program_end then;
	struct process *process; /* the last */
	struct store *store;
	int state_fd;
	int open_status;
	struct reference reference;
	struct worker *workers[PROGRAM_WORKERS_MAX];
	bool repeat;                      /* the next process repeats what was under way */
	bool excused[PROGRAM_CHUNKS_MAX]; /* for having replicas that fail together: one was to go, or too many */
	/* Counted. */
	uint64_t good, failed, discards, adoptions, hedges;
};

void program_open(struct program *program, unsigned index, unsigned host, const struct program_config *config);
/* A new process: of the first store, of the one that was left, or, if @anew, of a new one. */
void program_start(struct program *program, bool anew);
void program_kill(struct program *program);
/* It is to end. */
void program_end(struct program *program, enum program_end end);
/* Whether a request is late: world_fail(). */
void program_check(const struct program *program);
/* Whether two replicas of a chunk are on donors of one of these @domains (NULL: one of its own), and neither is to go:
   world_fail(). */
void program_check_apart(struct program *program, const char *const domains[]);
/* Whether no chunk has one too many (any more). */
bool program_is_settled(const struct program *program);
/* Its process has ended and left nothing. */
void program_close(struct program *program);

#endif
