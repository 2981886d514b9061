/*
 * history: one run of a simulated world, from a seed.
 *
 * Theory of operation. The seed draws a world (numbers of donors, programs and replicas, sizes, speeds of wires and
 * schedulers) and its faults (faults.c). Programs work while faults happen. Then all faults are mended. All requests
 * must be answered, the stores are emptied or closed, and donors must get all slabs back.
 *
 * Some histories are gentle (`loses` is false). In these, no donor is away for as long as a client waits, or fewer
 * donors than a chunk has replicas are lost. So no page may be lost, and only the right answer is allowed.
 *
 * Twenty times a second all books are checked: those of the donors (donor_check()) and those of the stores
 * (program_check()). A bug is found there before it does harm.
 *
 * In some histories programs rest after each fault. Meanwhile a donor that was away comes back, before any write could
 * detach its replica. The next reads find that this replica missed a write.
 *
 * In some histories donors name failure domains, fewer than there are donors. Then no chunk may ever have two replicas
 * in one domain, and all donors of a domain die together.
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
	FAULT_CUT_WIRE,   /* a connection carries nothing for a while, in one direction or both */
	FAULT_CUT_DONOR,  /* all wires between a donor and one program, or all programs, are cut for a while */
	FAULT_STALL,      /* a donor's process is stopped for a while */
	FAULT_CRASH,      /* a donor's process or machine dies, and another is started */
	FAULT_STOP,       /* a donor is stopped by SIGTERM, and started again */
	FAULT_CORRUPT,    /* a bit in a donor's memory flips */
	FAULT_MEMORY,     /* a donor's machine has no memory to spare for a while */
	FAULT_PAUSE,      /* a program's process is stopped for a while */
	FAULT_KILL,       /* a program's process is killed, and another takes over */
	FAULT_HAND_OVER,  /* a program's process ends, and another takes over */
	FAULT_NEW_HABITS, /* the scheduler becomes slower or faster */
	FAULT_SLOW,       /* a donor answers more slowly for a while */
	FAULTS_DRAWN,     /* the faults above are drawn from the generator of the world */
	/* The faults below have generators of their own, so that they do not change histories without them. */
	FAULT_REVOKE = FAULTS_DRAWN, /* a donor's machine wants some of its memory back, for a while */
	FAULT_DRAIN,                 /* a donor is drained by its operator, for a while */
	FAULT_SLEEP,   /* a program, or every process, is stopped, perhaps for longer than a client's timeout */
	FAULT_UPGRADE, /* a donor's program is replaced, and the next one takes over its leases */
	FAULTS
};

struct history {
	uint64_t seed, work_ns;
	unsigned donor_count, program_count, replicas;
	struct donor_host donors[DONORS_MAX];
	struct program programs[PROGRAMS_MAX];
	uint64_t timeout_ns, heartbeat_ns;
	uint64_t every_ns[FAULTS];               /* mean interval of each fault, or 0 for never */
	uint64_t outage_ns;                      /* longest usual outage */
	uint64_t revoke_ns;                      /* the donors' deadline for slabs to come back */
	bool loses;                              /* pages may be lost */
	unsigned victims;                        /* bitmap of the donors that may be lost although !loses */
	const char *failure_domains[DONORS_MAX]; /* the domain of each donor; NULL for one of its own */
	bool rests;                              /* programs make no requests for a while after a fault */
	bool placed;                             /* some donors share a domain */
	uint64_t rests_until[DONORS_MAX];
	uint64_t asleep_until; /* FAULT_SLEEP: until then some processes are stopped */
	uint64_t reset_at;     /* time of the last FAULT_RESET, or 0 */
	bool over;             /* no fault happens any more */
	struct task_habits habits;
};

struct history_result {
	char wrong[256]; /* the failure, or empty */
	uint64_t hash;   /* hash of the events; not with WORLD_SILENT */
	uint64_t good, failed, adoptions, operations, faults, hedges, rebuilt, warm;
};

void history_run(uint64_t seed, enum world_telling telling, struct history_result *ret_result);

/* --- Between history.c and faults.c ------------------------------------------------------------------------------ */

/* Returns the bitmap of the donors in the domain of @donor, which includes @donor. */
unsigned history_mates(const struct history *history, unsigned donor);
void faults_begin(struct history *history);
/* Ends all faults. */
void faults_mend(struct history *history);
/* Returns the number of faults that have happened. */
uint64_t faults_count(void);

#endif
