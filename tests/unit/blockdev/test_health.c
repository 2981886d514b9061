/* Unit tests of blockdev/health: the state of a device, and when the log tells it. */
#include "blockdev/daemon/health.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static void judge(struct health_sight sight, enum health expected, const char *why, const char *what)
{
	char text[HEALTH_WHY_MAX];
	enum health health = health_judge(&sight, text);

	ok(health == expected && !strcmp(text, why), "a device with %s is %s (\"%s\")", what, health_name(health),
	   text);
}

static void donors_and_pages_decide_the_state(void)
{
	judge((struct health_sight){.donors = 2}, HEALTH_SERVING, "", "two donors that answer");
	judge((struct health_sight){0}, HEALTH_SERVING, "", "no donors");
	judge((struct health_sight){.donors = 2, .away = 1}, HEALTH_DEGRADED,
	      "1 of 2 donors is out of reach, and waited for", "one of two donors away");
	judge((struct health_sight){.donors = 1, .away = 1}, HEALTH_DEGRADED,
	      "1 of 1 donors is out of reach, and waited for", "its only donor away");
	judge((struct health_sight){.donors = 3, .lost = 2, .missing = 7}, HEALTH_DEGRADED, "2 of 3 donors are lost",
	      "two of three donors lost");
	judge((struct health_sight){.donors = 2, .lost = 2}, HEALTH_FAILED, "2 of 2 donors are lost",
	      "all donors lost");
	judge((struct health_sight){.donors = 2, .lost = 2, .backup = true}, HEALTH_DEGRADED, "2 of 2 donors are lost",
	      "all donors lost beside a backup");
	judge((struct health_sight){.donors = 2, .missing = 7}, HEALTH_DEGRADED,
	      "7 pages were lost, and have not been written anew", "lost pages");
	judge((struct health_sight){.donors = 2, .lacking = 3}, HEALTH_DEGRADED, "3 replicas of slabs are lacking",
	      "slabs that lack a replica");
}

/* Returns the lines logged so far. */
static const char *lines(int log)
{
	static char text[4096];
	ssize_t size = pread(log, text, sizeof text - 1, 0);

	text[size > 0 ? size : 0] = '\0';
	return text;
}

static void a_state_that_lasts_is_logged_once(int log)
{
	struct health_told told = {0};

	health_tell(&told, "/dev/x", HEALTH_SERVING, "", SECOND);
	health_tell(&told, "/dev/x", HEALTH_DEGRADED, "why", 9 * SECOND);
	health_tell(&told, "/dev/x", HEALTH_SERVING, "", 10 * SECOND);
	health_tell(&told, "/dev/x", HEALTH_DEGRADED, "why", 11 * SECOND);
	health_tell(&told, "/dev/x", HEALTH_DEGRADED, "why", 12 * SECOND);
	ok(!*lines(log), "a state that lasts less than two seconds is not logged");
	health_tell(&told, "/dev/x", HEALTH_DEGRADED, "why", 13 * SECOND);
	health_tell(&told, "/dev/x", HEALTH_DEGRADED, "why", 20 * SECOND);
	ok(!strcmp(lines(log), "farpage: /dev/x is degraded: why\n"), "a state that lasts is logged once");
	health_tell(&told, "/dev/x", HEALTH_SERVING, "", 21 * SECOND);
	health_tell(&told, "/dev/x", HEALTH_SERVING, "", 24 * SECOND);
	ok(strstr(lines(log), "/dev/x is whole again\n"), "the end of a logged state is logged");
}

int main(void)
{
	int log = memfd_create("log", MFD_CLOEXEC);

	log_set_fd(log);
	donors_and_pages_decide_the_state();
	a_state_that_lasts_is_logged_once(log);
	log_set_fd(STDERR_FILENO);
	return tap_done();
}
