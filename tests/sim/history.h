/*
 * history: one run of a simulated world, which a seed determines.
 *
 * Theory of operation. First the world is drawn from the seed: the numbers of donors, programs and replicas, the
 * sizes, and the speeds of wires and schedulers. Then programs read and write far memory, while faults happen
 * (faults.c). At last all faults are ended, and the stores are emptied or closed. The history fails if a request is
 * not answered, or if a donor does not get all its slabs back.
 *
 * In a gentle history (`loses` is false) no page can be lost: donors that are away return in time, or fewer donors
 * are lost than a chunk has replicas. So each read must return the right contents.
 *
 * Twenty times a second the records of all donors (donor_check()) and stores (program_check()) are checked. This
 * finds many bugs before they lead to a wrong answer.
 *
 * In some histories programs make no requests for a while after each fault. So a donor that was away returns before a
 * write makes the client detach its replica. If such a replica has missed a write before, the next reads find this.
 *
 * In some histories several donors share a failure domain. Then no chunk may ever have two replicas in one domain,
 * and all donors of a domain die together.
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
	FAULTS_DRAWN,     /* the number of faults that are drawn from the generator of the world */
	/* Each fault below has a generator of its own, so that it does not change the histories without this fault. */
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
	uint64_t timeout_ns, last_timeout_ns, heartbeat_ns; /* last_timeout_ns: with a donor that has the last copy */
	uint64_t every_ns[FAULTS];                          /* mean interval of each fault, or 0 for never */
	uint64_t outage_ns;                                 /* longest duration of most faults */
	uint64_t revoke_ns;                                 /* the donors' deadline for recalled slabs */
	bool loses;                                         /* pages may be lost */
	unsigned victims; /* bitmap of the donors that may be lost in a gentle history */
	bool all_away;    /* no donor dies, but each may be away for longer than timeout_ns, all at once, too */
	const char *failure_domains[DONORS_MAX]; /* the domain of each donor, or NULL if it shares none */
	bool rests;                              /* programs make no requests for a while after a fault */
	bool placed;                             /* some donors share a domain */
	uint64_t rests_until[DONORS_MAX];
	uint64_t asleep_until; /* end of the present FAULT_SLEEP */
	uint64_t reset_at;     /* time of the last FAULT_RESET, or 0 */
	bool over;             /* no fault happens any more */
	struct task_habits habits;
};

struct history_result {
	char wrong[256]; /* the failure, or empty */
	uint64_t hash;   /* hash of all events, except with WORLD_SILENT */
	uint64_t good, failed, adoptions, operations, faults, hedges, rebuilt, warm;
};

void history_run(uint64_t seed, enum world_telling telling, struct history_result *ret_result);

/* --- Between history.c and faults.c ------------------------------------------------------------------------------ */

/* Returns the bitmap of the donors in the domain of @donor, including @donor itself. */
unsigned history_mates(const struct history *history, unsigned donor);
void faults_begin(struct history *history);
/* Ends all faults. */
void faults_mend(struct history *history);
/* Returns the number of faults that have happened. */
uint64_t faults_count(void);

#endif
