/* follow: the pager's threads run only on processors on which the program runs. */
#include "common/clock.h"
#include "common/thread.h"
#include "pager/follow.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
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

/* Does what the evictor does when a program with one thread creates a second one. */
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
	ok(runs_on(&given), "the evictor runs where the program's only thread runs");
	becomes_one_of_several(&follow, &cpu);
	ok(runs_on(&given), "the evictor of a program with several threads runs on the program's processors");
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

static void *wait_for_end(void *end)
{
	sem_wait(end);
	return NULL;
}

static void farpages_threads_are_not_the_programs(void)
{
	enum { OWN = 5 };
	pthread_t threads[OWN + 1];
	struct follow follow;
	sem_t end;
	sem_init(&end, 0, 0);
	follow_init(&follow);
	for (unsigned i = 0; i < OWN; i++)
		thread_start(&threads[i], NULL, 64u << 10, wait_for_end, &end);
	follow_thread(&follow, gettid(), true, clock_now());
	ok(thread_count() == OWN, "threads that farpage started are counted");
	/* The thread sanitizer starts a thread of its own, which counts as the program's. */
	if (UNDER_TSAN)
		tap_skip("a program beside five threads of farpage's counts as single-threaded", "TSan's own thread");
	else
		ok(atomic_load(&follow.alone) >= 0,
		   "a program beside five threads of farpage's counts as single-threaded");
	pthread_create(&threads[OWN], NULL, wait_for_end, &end);
	follow.next_look = 0;
	follow_thread(&follow, gettid(), true, clock_now());
	ok(atomic_load(&follow.alone) == -1, "a program with two threads of its own does not count as single-threaded");
	for (unsigned i = 0; i <= OWN; i++)
		sem_post(&end);
	for (unsigned i = 0; i <= OWN; i++)
		pthread_join(threads[i], NULL);
	ok(thread_count() == 0, "threads that have ended are not counted");
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
		farpages_threads_are_not_the_programs();
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
