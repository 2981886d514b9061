/* follow: the pager's threads run only on processors on which the program runs. */
#include "pager/follow.h"
#include "tests/lib/tap.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

static bool runs_on(const cpu_set_t *wanted)
{
	cpu_set_t now;

	return !sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, wanted);
}

/* Finds the processors that this process may use, and the first two of them. Returns false if there is only one. */
static bool find_two(cpu_set_t *ret_all, int ret_cpus[2])
{
	int found = 0;

	if (sched_getaffinity(0, sizeof *ret_all, ret_all))
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, ret_all))
			ret_cpus[found++] = cpu;
	return found == 2;
}

/* Does what the evictor does when a second thread faults. */
static void becomes_one_of_several(struct follow *follow, int *cpu)
{
	atomic_store(&follow->alone, -1);
	follow_alone(follow, true, cpu);
}

static void the_evictor_keeps_to_the_programs_processors(int first)
{
	struct follow follow;
	const cpu_set_t given = only(first);
	int cpu = -1;

	follow_init(&follow);
	atomic_store(&follow.alone, first);
	follow_alone(&follow, true, &cpu);
	ok(runs_on(&given), "the evictor runs where the only thread that faults runs");
	becomes_one_of_several(&follow, &cpu);
	ok(runs_on(&given), "if several threads fault, the evictor runs on the program's processors");
}

static void the_evictor_stays_where_others_have_placed_it(int first)
{
	struct follow follow;
	cpu_set_t all;
	int cpu = -1;

	memset(&all, 0xff, sizeof all);
	follow_init(&follow);
	atomic_store(&follow.alone, first);
	follow_alone(&follow, true, &cpu);
	sched_setaffinity(0, sizeof all, &all);
	sched_getaffinity(0, sizeof all, &all);
	becomes_one_of_several(&follow, &cpu);
	ok(runs_on(&all), "the evictor stays on the processors that somebody else has set meanwhile");
}

static void the_evictor_leaves_when_it_may_not_share_the_processor(int first)
{
	struct follow follow;
	int cpu = -1;

	follow_init(&follow);
	atomic_store(&follow.alone, first);
	follow_alone(&follow, true, &cpu);
	follow_alone(&follow, false, &cpu);
	ok(cpu == -1, "the evictor leaves the program's processor while forked children live");
}

static void a_thread_that_faults_alone_is_noticed(int cpu)
{
	const uint64_t ms = 1000000;
	const pid_t self = gettid(), other = 1; /* which need not be a thread of this process */
	struct follow follow;

	follow_init(&follow);
	follow_thread(&follow, self, true, 100 * ms);
	ok(atomic_load(&follow.alone) == -1, "one fault does not show that its thread faults alone");
	follow_thread(&follow, self, true, 119 * ms);
	ok(atomic_load(&follow.alone) == -1, "faults of 19 ms do not show that their thread faults alone");
	follow_thread(&follow, self, true, 126 * ms);
	ok(atomic_load(&follow.alone) == cpu, "a thread whose faults are the only ones for 20 ms faults alone");
	follow_thread(&follow, self, false, 132 * ms);
	ok(atomic_load(&follow.alone) == cpu, "faults of forked children do not count");
	follow_thread(&follow, other, true, 132 * ms);
	ok(atomic_load(&follow.alone) == -1, "the first fault of another thread counts at once");
	follow_thread(&follow, self, true, 138 * ms);
	follow_thread(&follow, other, true, 140 * ms);
	follow_thread(&follow, self, true, 157 * ms);
	follow_thread(&follow, self, true, 163 * ms);
	ok(atomic_load(&follow.alone) == -1, "threads that fault by turns do not fault alone");
	follow_thread(&follow, self, true, 180 * ms);
	ok(atomic_load(&follow.alone) == cpu, "the thread that goes on faults alone again");
}

static void children_are_followed(int cpu)
{
	struct follow follow;
	int lives[2];
	char byte;

	if (pipe(lives))
		abort();
	pid_t child = fork();
	if (child == 0) {
		close(lives[1]);
		_exit(read(lives[0], &byte, 1) != 0);
	}
	follow_init(&follow);
	follow_thread(&follow, child, true, UINT64_C(1) << 40);
	ok(follow.cpu == -1, "a forked child is not a thread of this process");
	follow_thread(&follow, child, false, UINT64_C(2) << 40);
	ok(follow.cpu == cpu, "the handler follows a forked child");
	close(lives[0]);
	close(lives[1]);
	waitpid(child, NULL, 0);
}

/* Executes itself again on one processor, as taskset would. */
int main(int argc, char **argv)
{
	cpu_set_t all;
	int cpus[2];

	if (argc > 1) {
		the_evictor_keeps_to_the_programs_processors(atoi(argv[1]));
		the_evictor_stays_where_others_have_placed_it(atoi(argv[1]));
		the_evictor_leaves_when_it_may_not_share_the_processor(atoi(argv[1]));
		a_thread_that_faults_alone_is_noticed(atoi(argv[1]));
		children_are_followed(atoi(argv[1]));
		return tap_done();
	}
	if (!find_two(&all, cpus))
		return tap_skip_all("there is only one processor");
	char text[16];
	snprintf(text, sizeof text, "%d", cpus[1]);
	const cpu_set_t given = only(cpus[1]);
	sched_setaffinity(0, sizeof given, &given);
	execv(argv[0], (char *[]){argv[0], text, NULL});
	return 1;
}
