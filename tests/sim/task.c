/* task: see task.h. */
#include "tests/sim/task.h"

#include "tests/sim/fiber.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* If a killed process has waited this many times, it does not end, and the history fails. */
#define YIELDS_MAX 200000u
/* Reading the clock takes LOOK_NS, so that time passes for a task that spins. Too long a spin fails the history. */
#define LOOK_NS UINT64_C(200)
#define LOOKS_FREE 64u
#define LOOKS_MAX 500000u

struct task {
	struct fiber *fiber;
	struct process *process;
	char name[16];
	void *(*run)(void *);
	void *argument;
	const void *blocked_on;
	uint64_t wake_at, token; /* time and token of the only valid call in the calendar */
	bool over;
	unsigned looks;    /* reads of the clock since the task last slept */
	struct task *next; /* in the list of all tasks */
};

static struct {
	struct task *all, *running;
	struct process *processes;
	struct task_habits habits;
} tasks;

void task_set_habits(const struct task_habits *habits)
{
	tasks.habits = *habits;
}

/* --- Running -------------------------------------------------------------------------------------------------- */

static void task_run(void *what, uint64_t token);

static void task_run_at(struct task *task, uint64_t at)
{
	if (task->wake_at <= at)
		return;
	task->wake_at = at;
	world_at(at, task_run, task, ++task->token);
}

static void task_run(void *what, uint64_t token)
{
	struct task *task = what;

	if (task->over || token != task->token)
		return;
	task->wake_at = UINT64_MAX;
	if (!task->process->dead && task->process->stalled_until > world_now()) {
		task_run_at(task, task->process->stalled_until);
		return;
	}
	task->blocked_on = NULL;
	tasks.running = task;
	fiber_enter(task->fiber);
	tasks.running = NULL;
	if (!fiber_is_over(task->fiber))
		return;
	task->over = true;
	task->process->tasks--;
	fiber_free(task->fiber);
	task_wake_all(task); /* tasks that join it */
}

static void task_main(void *argument)
{
	struct task *task = argument;

	task->run(task->argument);
}

struct task *task_create(struct process *process, const char *name, void *(*run)(void *), void *argument)
{
	struct task *task = world_memory(sizeof *task);

	task->process = process;
	snprintf(task->name, sizeof task->name, "%s", name);
	task->run = run;
	task->argument = argument;
	task->wake_at = UINT64_MAX;
	task->fiber = fiber_create(task_main, task);
	task->next = tasks.all;
	tasks.all = task;
	process->tasks++;
	task_wake(task);
	return task;
}

struct task *task_self(void)
{
	return tasks.running;
}

struct process *task_process(void)
{
	return tasks.running ? tasks.running->process : NULL;
}

bool task_is_over(const struct task *task)
{
	return task->over;
}

/* --- Blocking ------------------------------------------------------------------------------------------------- */

uint64_t task_now(void)
{
	return world_now() + (tasks.running ? tasks.running->process->ahead : 0);
}

/* A task of a killed process does not wait. Its process's clock jumps to the end of the wait. */
static void block_dead(struct task *task, uint64_t until)
{
	struct process *process = task->process;
	uint64_t now = task_now();

	if (until == UINT64_MAX)
		until = now + 10 * MS;
	if (until > now)
		process->ahead += until - now;
	if (++process->yields > YIELDS_MAX) {
		world_fail("%s: its %s does not end", process->name, task->name);
		task->token++;
		task->wake_at = UINT64_MAX;
	} else {
		task_run_at(task, world_now());
	}
	fiber_leave();
}

static void task_sleep(struct task *task, uint64_t until)
{
	if (task->process->dead) {
		block_dead(task, until);
		return;
	}
	task->token++;
	task->wake_at = UINT64_MAX;
	if (until != UINT64_MAX)
		task_run_at(task, until);
	fiber_leave();
}

void task_block(uint64_t until)
{
	assert(tasks.running);
	tasks.running->looks = 0;
	task_sleep(tasks.running, until);
}

void task_look(void)
{
	struct task *task = tasks.running;

	if (!task || ++task->looks % LOOKS_FREE || task->process->dead)
		return;
	if (task->looks > LOOKS_MAX)
		world_fail("%s: its %s spins, and does not sleep", task->process->name, task->name);
	task_sleep(task, world_now() + LOOK_NS * LOOKS_FREE);
}

static uint64_t habit_delay(void)
{
	uint64_t delay = world_below(tasks.habits.soon_ns);

	if (world_chance(tasks.habits.late_in))
		delay += world_below(tasks.habits.late_ns);
	return delay;
}

void task_wake(struct task *task)
{
	if (task && task != tasks.running && !task->over)
		task_run_at(task, task->process->dead ? world_now() : world_now() + habit_delay());
}

void task_pause(void)
{
	uint64_t until;

	if (!tasks.running || tasks.running->process->dead || !world_chance(tasks.habits.pause_in))
		return;
	until = world_now() + 1 + habit_delay();
	while (world_now() < until && !tasks.running->process->dead)
		task_block(until);
}

void task_block_on(const void *what)
{
	tasks.running->blocked_on = what;
	task_block(UINT64_MAX);
}

void task_wake_all(const void *what)
{
	for (struct task *task = tasks.all; task; task = task->next)
		if (!task->over && task->blocked_on == what)
			task_wake(task);
}

void tasks_forget(void)
{
	for (struct task *task = tasks.all; task; task = task->next)
		if (!task->over)
			fiber_free(task->fiber);
	tasks.all = NULL;
	tasks.processes = NULL;
}

/* --- Processes ------------------------------------------------------------------------------------------------ */

struct process *process_create(const char *name, unsigned host)
{
	struct process *process = world_memory(sizeof *process);

	snprintf(process->name, sizeof process->name, "%s", name);
	process->host = host;
	process->next = tasks.processes;
	tasks.processes = process;
	return process;
}

struct process *process_last(void)
{
	return tasks.processes;
}

bool process_check_gone(const struct process *process)
{
	if (process->tasks)
		world_fail("%s: %u of its threads do not end", process->name, process->tasks);
	else if (process->fabrics || process->domains || process->regions || process->conns)
		world_fail("%s: leaves %u fabrics, %u domains, %u regions, %u connections", process->name,
			   process->fabrics, process->domains, process->regions, process->conns);
	return !world_wrong();
}

void process_stall(struct process *process, uint64_t duration)
{
	uint64_t now = world_now(), until = now + duration;

	if (until <= process->stalled_until)
		return;
	process->stalled += until - (process->stalled_until > now ? process->stalled_until : now);
	process->stalled_until = until;
}

void process_kill(struct process *process)
{
	process->dead = true;
	for (struct task *task = tasks.all; task; task = task->next)
		if (task->process == process && task != tasks.running)
			task_wake(task);
}
