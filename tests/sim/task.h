/*
 * task: simulated processes and their threads.
 *
 * Theory of operation. A task is a thread of a process. It is a fiber (fiber.h), which runs until it blocks. When
 * another task wakes it, or the time until which it blocks has come, the calendar (world.h) continues the fiber.
 * Before that the task waits for the simulated scheduler, mostly for a short time, sometimes for a long one. A
 * process can be stalled, as by SIGSTOP, so that none of its tasks runs. It can also be killed.
 *
 * When a process is killed, other processes see its end at once, and nothing that it does afterwards (net.h). But its
 * tasks continue to run until they have released all resources, so that the simulator does not leak them, and can
 * check that the process releases all of them. Their clock then runs ahead: a wait ends at once.
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
	bool dead;              /* it was killed */
	bool adopts;            /* the memory that it registers belongs to clients of the process before */
	uint64_t ahead;         /* how far the clock of a killed process runs ahead */
	uint64_t stalled_until; /* no task of the process runs before this time */
	uint64_t stalled;       /* total time in which it was stalled */
	unsigned tasks;         /* tasks that have not ended */
	unsigned yields;        /* number of waits since it was killed */
	struct process *next;   /* next in the list of all processes */
	/* How many objects of the fabric it has (net.h). */
	unsigned fabrics, domains, regions, conns;
	uint32_t keys;
	struct fabric_region *region_list;
};

/*
 * The scheduler of this history. A woken task runs after at most `soon_ns`. Once in `late_in` times it takes up to
 * `late_ns` longer. Once in `pause_in` times task_pause() interrupts the task.
 */
struct task_habits {
	uint64_t soon_ns, late_ns;
	unsigned late_in, pause_in;
};
void task_set_habits(const struct task_habits *habits);

struct process *process_create(const char *name, unsigned host);
/* Returns the process that was created last, the head of the list of all processes. */
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
/* Lets a moment pass, because the running task reads the clock. Fails the history if the task waits by reading the
   clock again and again. */
void task_look(void);
/* Wakes the task. Takes NULL. */
void task_wake(struct task *task);
/* May interrupt the running task for a moment. */
void task_pause(void);
/* Blocks until task_wake_all() is called for the same @what. May return early. */
void task_block_on(const void *what);
void task_wake_all(const void *what);

/* Ends the tasks that a failed history has not ended. */
void tasks_forget(void);

#endif
