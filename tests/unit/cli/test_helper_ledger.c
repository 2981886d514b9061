/* Unit tests of cli/helper/helper_ledger: how long the record of a device counts. */
#include "cli/helper/helper_ledger.h"
#include "tests/lib/folder.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER 1000u
#define SWAP (UINT64_C(256) << 20)

/* A user may have one device of this size. */
static const struct helper_limits limits = {.swap = 4 * SWAP, .user_swap = SWAP, .devices = 4, .user_devices = 4};

/* Takes a record in this process. */
static enum helper_status take(uint32_t user, struct helper_ledger *ret_ledger)
{
	uint64_t swap;

	return helper_ledger_take(&limits, user, SWAP, ret_ledger, &swap);
}

/* Starts a process that has inherited this process's records and waits, as the guard does. */
static pid_t guard_start(void)
{
	pid_t guard = fork();

	if (guard == 0)
		for (;;)
			pause();
	return guard;
}

static void guard_end(pid_t guard)
{
	kill(guard, SIGKILL);
	waitpid(guard, NULL, 0);
}

static void record_counts_until_all_processes_have_ended(void)
{
	struct helper_ledger ledger, other;

	ok(take(USER, &ledger) == HELPER_OK, "a user gets the first device");
	ok(take(USER, &other) == HELPER_USER_SWAP, "the user's first device counts");
	ok(take(USER + 1, &other) == HELPER_OK, "another user gets a device");
	pid_t guard = guard_start();
	close(ledger.fd);
	ok(take(USER, &ledger) == HELPER_USER_SWAP, "the first device counts while the guard lives");
	guard_end(guard);
	ok(take(USER, &ledger) == HELPER_OK, "the user gets the next device once both processes have ended");
	close(ledger.fd);
	close(other.fd);
}

static void record_that_is_released_does_not_count(void)
{
	struct helper_ledger ledger, next;

	ok(take(USER, &ledger) == HELPER_OK, "a user gets a device");
	pid_t guard = guard_start();
	helper_ledger_release(&ledger);
	ok(take(USER, &next) == HELPER_OK, "the user gets the next device while the helper and the guard still end");
	guard_end(guard);
	close(ledger.fd);
	ok(take(USER, &ledger) == HELPER_USER_SWAP, "the end of both does not release the next device");
	close(next.fd);
}

int main(void)
{
	setenv("FARPAGE_HELPER", folder(), 1);
	record_counts_until_all_processes_have_ended();
	record_that_is_released_does_not_count();
	return tap_done();
}
