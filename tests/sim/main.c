/*
 * sim: runs histories of farpage in a simulated world. A seed determines each history.
 *
 *     sim [--seeds N] [--from S]   runs N histories (100) from seed S (1) on; ends at the first failure with status 1
 *     sim --replay S               runs the history of a seed and prints every event
 *     sim --hash S                 runs the history of a seed and prints the hash of its events
 *
 * Standard output is TAP.
 */
#include "common/log.h"
#include "tests/lib/tap.h"
#include "tests/sim/history.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

/* In so many histories, each kind of event that is counted must have happened. */
#define HISTORIES_ENOUGH 300u

static volatile sig_atomic_t running;
static char running_text[32];

/* Reports the seed when an assertion or a memory fault ends the simulator. */
static void died(int signal_number)
{
	static const char before[] = "not ok 1 - seed ",
			  after[] = " ends the simulator itself; ./dev sim --replay it\n1..1\n";

	if (running) {
		(void)!write(STDOUT_FILENO, before, sizeof before - 1);
		(void)!write(STDOUT_FILENO, running_text, strlen(running_text));
		(void)!write(STDOUT_FILENO, after, sizeof after - 1);
	}
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void run(uint64_t seed, enum world_telling telling, struct history_result *ret_result)
{
	snprintf(running_text, sizeof running_text, "%llu", (unsigned long long)seed);
	running = true;
	history_run(seed, telling, ret_result);
	running = false;
}

static int run_many(uint64_t first, uint64_t count)
{
	struct history_result all = {0}, one = {0};
	uint64_t seed = first;

	for (; seed < first + count; seed++) {
		run(seed, WORLD_SILENT, &one);
		all.good += one.good;
		all.failed += one.failed;
		all.adoptions += one.adoptions;
		all.operations += one.operations;
		all.faults += one.faults;
		all.hedges += one.hedges;
		all.rebuilt += one.rebuilt;
		all.warm += one.warm;
		if (one.wrong[0])
			break;
	}
	if (one.wrong[0])
		printf("# seed %llu: %s\n# ./dev sim --replay %llu tells all of it\n", (unsigned long long)seed,
		       one.wrong, (unsigned long long)seed);
	ok(!one.wrong[0], "%llu histories from seed %llu", (unsigned long long)count, (unsigned long long)first);
	printf("# %llu requests were carried out and %llu failed, with %llu operations on donors, %llu faults, %llu "
	       "processes killed, %llu reads hedged\n",
	       (unsigned long long)all.good, (unsigned long long)all.failed, (unsigned long long)all.operations,
	       (unsigned long long)all.faults, (unsigned long long)all.adoptions, (unsigned long long)all.hedges);
	if (!one.wrong[0] && count >= HISTORIES_ENOUGH)
		ok(all.failed && all.adoptions && all.hedges && all.rebuilt && all.warm,
		   "stores are adopted, reads hedged, %llu pages rebuilt, and donors told %llu times of warm slabs",
		   (unsigned long long)all.rebuilt, (unsigned long long)all.warm);
	return tap_done();
}

static int run_one(uint64_t seed, enum world_telling telling)
{
	struct history_result result;

	setvbuf(stdout, NULL, _IOLBF, 0);
	run(seed, telling, &result);
	printf("# seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)result.hash);
	ok(!result.wrong[0], "seed %llu%s%s", (unsigned long long)seed, result.wrong[0] ? ": " : "", result.wrong);
	return tap_done();
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
						{"from", required_argument, NULL, 'f'},
						{"replay", required_argument, NULL, 'r'},
						{"hash", required_argument, NULL, 'h'},
						{0}};
	uint64_t first = 1, count = 100, one = 0;
	enum world_telling telling = WORLD_HASHED;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (option == '?')
			return 2;
		if (option == 'n')
			count = number;
		else if (option == 'f')
			first = number;
		else
			one = number;
		if (option == 'r')
			telling = WORLD_WATCHED;
	}
	signal(SIGABRT, died);
	signal(SIGSEGV, died);
	signal(SIGBUS, died);
	if (telling == WORLD_WATCHED)
		log_set_fd(STDOUT_FILENO);
	else
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	if (telling == WORLD_WATCHED)
		log_setup("log", LOG_LEVEL_DEBUG);
	return one ? run_one(one, telling) : run_many(first, count ? count : 1);
}
