/*
 * task: simulated processes and their threads.
 *
 * Theory of operation. A task is a thread of a process: a fiber that runs until it blocks, and is entered again by the
 * calendar: when it is woken, or its time has come. Between being woken and running passes the time that a scheduler
 * takes, mostly little, now and then long. A process can be stalled (none of its tasks runs: SIGSTOP) and killed.
 *
 * A process that is killed has ended for the world at that moment: nothing it does is seen by anybody (net.h). Its
 * tasks go on in a time of their own that runs as fast as they wait, only so that they give back what they have; so
 * what a process leaves undone shows, and yet nothing leaks.
 *
 * Threads: one. Everything written for threads (pthread_*, sem_*, poll, sched_yield, eventfds) is told of in threads.c.
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include "tests/sim/world.h"

struct task;
struct fabric_region;

struct process {
	char name[16];
	unsigned host;          /* the machine it runs on */
	bool dead;              /* killed */
	uint64_t ahead;         /* once killed: how far its own time has run ahead */
	uint64_t stalled_until; /* no task of it runs before */
	uint64_t stalled;       /* for how long it was, altogether */
	unsigned tasks;         /* that have not ended */
	unsigned yields;        /* since it was killed */
	struct process *next;   /* of all */
	/* What it has of the fabric; net.h. */
	unsigned fabrics, domains, regions, conns;
	uint32_t keys;
	struct fabric_region *region_list;
};

/* How this history's scheduler behaves: a task that was woken runs within `soon_ns`, and once in `late_in` times within
   `late_ns`; once in `pause_in` times a task is interrupted where it calls out. */
struct task_habits {
	uint64_t soon_ns, late_ns;
	unsigned late_in, pause_in;
};
void task_set_habits(const struct task_habits *habits);

struct process *process_create(const char *name, unsigned host);
/* The last one created; its `next` the one before. */
struct process *process_last(void);
/* Of one that should have ended: false and world_fail() if it has not, or has left something. */
bool process_check_gone(const struct process *process);
void process_stall(struct process *process, uint64_t duration);
/* None of its tasks is running now, unless the caller is one. */
void process_kill(struct process *process);

struct task *task_create(struct process *process, const char *name, void *(*run)(void *), void *argument);
/* The one that is running; NULL: none. */
struct task *task_self(void);
struct process *task_process(void);
bool task_is_over(const struct task *task);

/* ns, of the running task's process. */
uint64_t task_now(void);
/* Blocks the running task until it is woken, or task_now() is @until; UINT64_MAX: never by time. May end early. */
void task_block(uint64_t until);
/* The running task looks at the clock: which takes it a moment, and is no way to wait (world_fail()). */
void task_look(void);
/* It runs again soon. Takes NULL. */
void task_wake(struct task *task);
/* The running task may be interrupted here for a moment. */
void task_pause(void);
/* Blocks until task_wake_all() on the same @what, or early. */
void task_block_on(const void *what);
void task_wake_all(const void *what);

/* Ends what a failed history has left. */
void tasks_forget(void);

#endif
