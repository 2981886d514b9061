/*
 * history: one run of a simulated world, from a seed.
 *
 * Theory of operation. The seed draws a world (how many donors and programs, replicas, sizes, how fast wires and
 * schedulers are) and what goes wrong in it (faults.h). Programs work while things go wrong; then all is mended, what
 * was asked is answered, the stores are emptied or closed, and everything has to be given back.
 *
 * Some histories are gentle: no donor is away for as long as a client waits, or no more donors than a store has
 * replicas to spare. In these no page may be lost (`loses` is false), and no answer but the right one is excused.
 *
 * In some, donors name failure domains, fewer than there are donors. Then no chunk may ever have two replicas in one,
 * and donors die by the domain.
 *
 * Threads: one.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "tests/sim/donors.h"
#include "tests/sim/program.h"

#define PROGRAMS_MAX 2u
#define PROGRAM_HOST DONORS_MAX

enum fault {
	FAULT_RESET,      /* a connection breaks */
	FAULT_CUT_WIRE,   /* nothing passes over a connection for a while, one way or both */
	FAULT_CUT_DONOR,  /* nor between a donor and a program, or anybody */
	FAULT_STALL,      /* a donor's process stands still */
	FAULT_CRASH,      /* a donor's process or machine dies, and another is started */
	FAULT_STOP,       /* a donor is told to stop, and started again */
	FAULT_CORRUPT,    /* a bit in a donor's memory flips */
	FAULT_MEMORY,     /* a donor's machine has no memory to spare for a while */
	FAULT_PAUSE,      /* a program's process stands still */
	FAULT_KILL,       /* a program's process is killed, and another goes on */
	FAULT_HAND_OVER,  /* or ends, for another to go on */
	FAULT_NEW_HABITS, /* the scheduler is busier, or less */
	FAULT_SLOW,       /* a donor answers later for a while */
	FAULTS_DRAWN,     /* those above, by the world's dice */
	/* Those below have dice of their own: histories without them are what they were. */
	FAULT_REVOKE = FAULTS_DRAWN, /* a donor's machine wants some of its memory back, for a while */
	FAULT_DRAIN,                 /* a donor is drained by its operator, for a while */
	FAULT_SLEEP,                 /* a program, or all there is, stands still for longer than clients wait */
	FAULTS
};

struct history {
	uint64_t seed, work_ns;
	unsigned donor_count, program_count, replicas;
	struct donor_host donors[DONORS_MAX];
	struct program programs[PROGRAMS_MAX];
	uint64_t timeout_ns, heartbeat_ns;
	uint64_t every_ns[FAULTS];       /* 0: never */
	uint64_t outage_ns;              /* how long things are away */
	uint64_t revoke_ns;              /* donors' deadline */
	bool loses;                      /* pages may be lost; else: */
	unsigned victims;                /* donors that anything may happen to, a bit each */
	const char *domains[DONORS_MAX]; /* of each donor; NULL: one of its own */
	bool placed;                     /* some donors share one */
	uint64_t rests_until[DONORS_MAX];
	uint64_t asleep_until; /* FAULT_SLEEP: who wakes then finds everybody */
	uint64_t reset_at;     /* when a connection was reset last; 0: never */
	bool over;             /* nothing goes wrong any more */
	struct task_habits habits;
};

struct history_result {
	char wrong[256]; /* empty: nothing */
	uint64_t hash;   /* unless WORLD_SILENT */
	uint64_t good, failed, adoptions, operations, faults, hedges;
};

void history_run(uint64_t seed, enum world_telling telling, struct history_result *ret_result);

/* Of history.c, for faults.c. */
/* The donors in this one's domain, itself among them, a bit each. */
unsigned history_mates(const struct history *history, unsigned donor);
void faults_begin(struct history *history);
/* Everything is well again. */
void faults_mend(struct history *history);
/* How many have happened. */
uint64_t faults_count(void);

#endif
