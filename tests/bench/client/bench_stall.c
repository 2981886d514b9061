/*
 * bench_stall: the longest stall of requests when a donor goes, with two replicas on three donors.
 *
 * 32 reads and writes of random pages are under way, and each is checked. After a while one donor is killed or stopped.
 * The connections of a killed donor end at once. A stopped donor is noticed only when an operation takes longer than
 * io_ms. The figure is the time of the longest request. The target is the configured time of detection plus 200 ms.
 * Each round has donors of its own.
 *
 *     bench_stall [ROUNDS]
 */
#include "tests/bench/figures.h"
#include "tests/func/client/traffic.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CALM_MS 400u
#define RUN_MS 2000u
#define ALLOWED_MS 200u

static struct traffic traffic;

/* The signal that a donor gets while requests go on. */
struct blow {
	pid_t pid;
	int signal;
};

static void *blow_main(void *argument)
{
	const struct blow *blow = argument;

	sleep_ms(CALM_MS / 2);
	kill(blow->pid, blow->signal);
	return NULL;
}

static double slowest_ms(unsigned ms)
{
	traffic.slowest = 0;
	traffic_run(&traffic, ms);
	return (double)traffic.slowest / 1e6;
}

static void round_run(int signal, uint64_t seed, struct rounds *calm, struct rounds *stall)
{
	struct blow blow = {.signal = signal};
	pthread_t thread;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig.config.timeout_ms = 10000;
	rig.config.replicas = 2;
	rig.config.pages = TRAFFIC_PAGES;
	rig_open(&rig);
	traffic_begin(&traffic, &rig, seed);
	rounds_add(calm, slowest_ms(CALM_MS));
	blow.pid = rig.donors[0].pid;
	must(pthread_create(&thread, NULL, blow_main, &blow) == 0, "no thread");
	rounds_add(stall, slowest_ms(RUN_MS));
	pthread_join(thread, NULL);
	must(!traffic_check(&traffic) && !traffic.failed && !traffic.wrong, "pages are lost, or wrong");
	if (signal == SIGKILL)
		donor_kill(&rig.donors[0]); /* waits for its end */
	else
		kill(rig.donors[0].pid, SIGCONT);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	const unsigned rounds = argument_number(argc, argv, 1, 9);
	const unsigned io_ms = FABRIC_CONFIG_DEFAULT.io_ms;
	struct rounds calm = {0}, killed = {0}, stopped = {0};

	must(rounds, "usage: bench_stall [ROUNDS]");
	log_keep(); /* keeps the log of lost donors, which are intended, from the output */
	for (unsigned i = 0; i < rounds; i++) {
		struct rounds again = {0};

		round_run(SIGKILL, 2 * i + 1, &calm, &killed);
		round_run(SIGSTOP, 2 * i + 2, &again, &stopped);
		log_begin();
	}
	figure("longest of all requests, nothing happens", "ms", &calm);
	figure_at_most("longest, a donor is killed (noticed at once)", "ms", &killed, ALLOWED_MS);
	figure_at_most("longest, a donor is stopped (noticed in io_ms, 800 ms)", "ms", &stopped, io_ms + ALLOWED_MS);
	return EXIT_SUCCESS;
}
