/* metrics_http: which addresses --metrics takes, and the thread that serves. tests/func/cli/test_metrics.py has the
   rest, over a socket. */
#include "common/log.h"
#include "common/metrics_http.h"
#include "tests/lib/http.h"
#include "tests/lib/tap.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>

static bool one_line(void *user, struct metrics_text *text)
{
	(void)user;
	text_add(&text->out, "one 1\n");
	return true;
}

/* Returns how many threads of this process have the policy. */
static unsigned threads_with(int policy)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned count = 0;

	while (folder && (entry = readdir(folder)))
		count += atoi(entry->d_name) > 0 && sched_getscheduler(atoi(entry->d_name)) == policy;
	if (folder)
		closedir(folder);
	return count;
}

static void the_thread_of_a_real_time_caller_runs_normally(void)
{
	static const char name[] = "the thread that serves metrics runs with normal priority";
	const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)}, none = {0};
	const unsigned before = threads_with(SCHED_OTHER) - 1; /* a sanitizer may have a thread */
	unsigned port = http_free_port();
	struct metrics_http *http;
	char address[16];

	log_set_fd(-1);
	if (metrics_http_load() < 0) {
		tap_skip(name, "no libmicrohttpd");
		return;
	}
	if (sched_setscheduler(0, SCHED_RR, &lowest) < 0) {
		tap_skip(name, "no right to a real-time policy");
		return;
	}
	snprintf(address, sizeof address, "%u", port);
	ok(metrics_http_open(address, one_line, NULL, &http) == 0 && http_status(port) == 200,
	   "a thread with a real-time policy serves metrics");
	ok(threads_with(SCHED_OTHER) == before + 1, "%s", name);
	ok(sched_getscheduler(0) == SCHED_RR, "a thread that starts the serving of metrics keeps its real-time policy");
	metrics_http_close(http);
	sched_setscheduler(0, SCHED_OTHER, &none);
}

int main(void)
{
	static const char *const good[] = {"9470",           "0",          "127.0.0.1:9470",
					   "localhost:9470", "[::1]:9470", "0.0.0.0:9470"};
	static const char *const bad[] = {
	    "",          "abc",   "127.0.0.1",    "[::1]",    "::1:9470", "-1",           "65536",
	    "9470 ",     ":9470", "example:9470", "1.2.3:80", "94\n70",   "9470/metrics", "http://127.0.0.1:9470",
	    "127.0.0.1:"};

	for (unsigned i = 0; i < sizeof good / sizeof *good; i++)
		ok(metrics_http_check(good[i]) == 0, "'%s' is an address for metrics", good[i]);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(metrics_http_check(bad[i]) < 0, "bad address %u for metrics is refused", i);
	the_thread_of_a_real_time_caller_runs_normally();
	return tap_done();
}
