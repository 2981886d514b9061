/*
 * task: simulated processes and their threads.
 *
 * Theory of operation. A task is a thread of a process. A task is a fiber that runs until it blocks. The calendar
 * enters the fiber again when another task wakes it or its time has come. A task that is woken runs after the delay of
 * a scheduler, mostly a short one, now and then a long one. A process can be stalled, so that none of its tasks runs
 * (SIGSTOP), and killed.
 *
 * For the rest of the world a killed process ends at once: no other process sees what it does then (net.h). Its tasks
 * continue in a time of their own, which skips their waits, until they have released all resources. So the simulator
 * finds resources that a process does not release, and leaks none.
 *
 * Threads: one. threads.c simulates the calls of threads (pthread_*, sem_*, poll, sched_yield, eventfds).
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include "tests/sim/world.h"

struct task;
struct fabric_region;

struct process {
	char name[16];
	unsigned host;          /* the machine on which it runs */
	bool dead;              /* killed */
	bool adopts;            /* the memory that it registers belongs to clients of the process before */
	uint64_t ahead;         /* how far the time of a killed process has run ahead */
	uint64_t stalled_until; /* no task of the process runs before this time */
	uint64_t stalled;       /* total time for which it was stalled */
	unsigned tasks;         /* tasks that have not ended */
	unsigned yields;        /* number of waits since it was killed */
	struct process *next;   /* in the list of all processes */
	/* The number of its objects of the fabric, see net.h. */
	unsigned fabrics, domains, regions, conns;
	uint32_t keys;
	struct fabric_region *region_list;
};

/*
 * The scheduler of this history. A task that is woken runs within `soon_ns`. One in `late_in` wakes takes up to
 * `late_ns` more. One in `pause_in` calls of task_pause() interrupts the task.
 */
struct task_habits {
	uint64_t soon_ns, late_ns;
	unsigned late_in, pause_in;
};
void task_set_habits(const struct task_habits *habits);

struct process *process_create(const char *name, unsigned host);
/* Returns the process that was created last. Its `next` is the process created before it. */
struct process *process_last(void);
/* Checks that a process has ended and released all resources. If not, fails the history and returns false. */
bool process_check_gone(const struct process *process);
void process_stall(struct process *process, uint64_t duration);
/* Kills the process. No task of it may be running, except the caller. */
void process_kill(struct process *process);

struct task *task_create(struct process *process, const char *name, void *(*run)(void *), void *argument);
/* Returns the running task, or NULL. */
struct task *task_self(void);
struct process *task_process(void);
bool task_is_over(const struct task *task);

/* Returns the time of the running task's process, in ns. */
uint64_t task_now(void);
/* Blocks the running task until it is woken or task_now() reaches @until (UINT64_MAX: never). May return early. */
void task_block(uint64_t until);
/* Lets a moment pass, because the running task reads the clock. A task that waits only by reading the clock fails the
   history. */
void task_look(void);
/* Wakes the task, which runs again soon. Takes NULL. */
void task_wake(struct task *task);
/* May interrupt the running task for a moment. */
void task_pause(void);
/* Blocks until task_wake_all() on the same @what. May return early. */
void task_block_on(const void *what);
void task_wake_all(const void *what);

/* Ends the tasks that a failed history has left. */
void tasks_forget(void);

#endif
