/*
 * A donor whose machine needs its memory: here the machine is a control group. What is short is asked for, what is not
 * released in time is taken, and the reserve is back within the deadline; what is not asked for stays as it is.
 * `test_shrink DAEMON loop N` repeats the case of a client that releases nothing N times and tells how long it took.
 */
#include "common/clock.h"
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/func/memserver/group.h"
#include "tests/tap.h"

#include <poll.h>
#include <signal.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MIB UINT64_C(1048576)
#define SLAB (4 * MIB)
#define LIMIT (256 * MIB)
#define RESERVE (64 * MIB)
#define SLABS 16u
#define DEADLINE_MS 4000u
#define LOOP_DEADLINE_MS 10000u /* the default */

static struct group group;
static struct daemon donor;
static struct client client;
static struct wire_message grants[SLABS];

static bool donor_start(unsigned deadline_ms)
{
	char deadline[16];
	bool good;

	snprintf(deadline, sizeof deadline, "%u", deadline_ms / 1000);
	group_enter(&group);
	/* Heartbeats far apart: while a program takes its memory the client here says nothing. */
	good = daemon_start(&donor, ARGS("--donate", "auto", "--slab", "4M", "--reserve", "25%", "--revoke-deadline",
					 deadline, "--heartbeat", "10000"));
	group_leave(&group);
	return good;
}

static void mark(unsigned slab)
{
	memset(client.buffer, (int)slab + 1, 4096);
}

static bool marked(unsigned slab)
{
	for (unsigned i = 0; i < 4096; i++)
		if (client.buffer[i] != (char)(slab + 1))
			return false;
	return true;
}

/* A client that leases sixteen slabs and writes to each. */
static bool client_start(void)
{
	bool good;

	client_init(&client, donor.uri, NULL, "client");
	good = !client_come(&client) && !client_attach(&client, 0);
	for (unsigned i = 0; good && i < SLABS; i++) {
		mark(i);
		good = !client_lease(&client, &grants[i]) &&
		       !client_write(&client, grants[i].granted.address, grants[i].granted.rkey, 4096);
	}
	return good;
}

static unsigned asked_for(enum wire_type type)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SLABS; i++)
		count += client_noticed(&client, type, grants[i].granted.slab);
	return count;
}

/* A program takes what leaves @short_by less than the reserve. */
static bool machine_needs(struct hog *hog, uint64_t short_by)
{
	uint64_t available = group_available(&group);

	return available + short_by > RESERVE && hog_start(hog, &group, available + short_by - RESERVE);
}

/* Listens to the donor meanwhile. How long it took, in ms; UINT64_MAX: it did not happen. */
static uint64_t wait_available(uint64_t bytes)
{
	uint64_t start = clock_now(), end = start + UINT64_C(1000000) * DAEMON_WAIT_MS;
	struct wire_capacity capacity;

	while (group_available(&group) < bytes && clock_now() < end) {
		if (client.session)
			client_status(&client, &capacity);
		poll(NULL, 0, 1);
	}
	return group_available(&group) >= bytes ? (clock_now() - start) / 1000000 : UINT64_MAX;
}

/* The client gives back what it is asked for. */
static void test_released(void)
{
	struct hog hog;
	const uint64_t stalled = stalled_us(); /* others on this machine may */
	unsigned asked, wrong = 0;
	uint64_t took;

	ok(machine_needs(&hog, 4 * SLAB + SLAB / 2), "the machine is four and a half slabs short");
	ok(client_wait_notices(&client, WIRE_REVOKE, 5), "five are asked for");
	for (unsigned i = 0; i < client.notice_count; i++)
		wrong += client.notices[i].type != WIRE_REVOKE || client.notices[i].revoke.deadline_ms > DEADLINE_MS ||
			 client.notices[i].revoke.deadline_ms < DEADLINE_MS / 2 ||
			 client.notices[i].revoke.capacity.state != WIRE_STATE_SHRINKING;
	ok(!wrong, "with a deadline, and that memory is short");
	asked = asked_for(WIRE_REVOKE);
	ok(asked == 5 || (asked > 5 && stalled_us() > stalled), "no more than are needed (%u), unless tasks stall",
	   asked);
	for (unsigned i = 0; i < SLABS; i++) {
		if (!client_noticed(&client, WIRE_REVOKE, grants[i].granted.slab))
			continue;
		wrong += client_read(&client, grants[i].granted.address, grants[i].granted.rkey, 4096) || !marked(i);
		wrong += client_release(&client, grants[i].granted.slab) != 0;
		grants[i].granted.slab = 0;
	}
	ok(!wrong, "until the deadline they are the client's, and released like any other");
	took = wait_available(RESERVE);
	ok(took < UINT64_MAX, "the reserve is there again (%llu ms)", (unsigned long long)took);
	ok(!client_notices(&client, WIRE_REVOKED), "and nothing was taken");
	hog_end(&hog);
}

static void check_taken(unsigned *ret_kept, unsigned *ret_wrong)
{
	struct wire_message granted;

	*ret_kept = *ret_wrong = 0;
	for (unsigned i = 0; i < SLABS; i++) {
		uint64_t slab = grants[i].granted.slab;

		if (!slab)
			continue;
		if (client_noticed(&client, WIRE_REVOKED, slab)) {
			*ret_wrong += client_claim(&client, slab, &granted) != WIRE_REASON_TAKEN;
			continue;
		}
		++*ret_kept;
		*ret_wrong +=
		    client_read(&client, grants[i].granted.address, grants[i].granted.rkey, 4096) || !marked(i);
	}
}

/* What is told to be taken can be read until its key is dead, a moment later. */
static bool dies(const struct wire_message *grant)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * DAEMON_WAIT_MS;

	while (clock_now() < end)
		if (client_read(&client, grant->granted.address, grant->granted.rkey, 4096) < 0)
			return true;
	return false;
}

/* The client does nothing about it. */
static void test_not_released(void)
{
	unsigned kept, wrong, taken = 0;
	struct wire_message more;
	struct hog hog;
	uint64_t took;

	client.notice_count = 0;
	ok(machine_needs(&hog, 3 * SLAB + SLAB / 2), "three and a half slabs short again");
	took = wait_available(RESERVE);
	/* The figure is measured apart, with nothing else going on; here it is that it does not wait for the client. */
	ok(took < 5 * DEADLINE_MS, "the reserve is back (%llu ms)", (unsigned long long)took);
	ok(client_wait_notices(&client, WIRE_REVOKED, 4), "the client is told what was taken");
	check_taken(&kept, &wrong);
	ok(!wrong, "that is not its any more, and the other %u are as they were", kept);
	ok(client_lease(&client, &more) == WIRE_REASON_FULL, "nothing more is lent");
	for (unsigned i = 0; i < SLABS && !taken; i++)
		if (grants[i].granted.slab && client_noticed(&client, WIRE_REVOKED, grants[i].granted.slab))
			taken = i + 1;
	ok(taken && dies(&grants[taken - 1]), "the key to what was taken is dead");
	hog_end(&hog);
}

/*
 * Programs stall for lack of memory, and little more than the reserve is available: some is asked for although none is
 * lacking. How much a machine stalls is its own matter; one that does not for seconds is left alone.
 */
static bool test_stalls(void)
{
	const uint64_t end = clock_now() + UINT64_C(1000000) * DAEMON_WAIT_MS;
	uint64_t before = stalled_us(), stalled = 0;
	struct wire_capacity capacity;
	struct thrash thrash;
	struct hog hog;
	const char *why;

	if (strstr(donor.log, "no pressure stall information")) {
		tap_skip("stalls have memory asked for", "no pressure stall information here");
		return false;
	}
	if (!ok(hog_start(&hog, &group, group_available(&group) - RESERVE - 6 * SLAB), "little more than the reserve"))
		return false;
	why = thrash_start(&thrash);
	if (why) {
		tap_skip("stalls have memory asked for", why);
		hog_end(&hog);
		return false;
	}
	while (!client.notice_count && clock_now() < end && !client_status(&client, &capacity))
		poll(NULL, 0, 1);
	stalled = stalled_us() - before;
	thrash_end(&thrash);
	hog_end(&hog);
	if (!client.notice_count && stalled < 5000000)
		tap_skip("stalls have memory asked for", "programs hardly stall here");
	else
		ok(client_notices(&client, WIRE_REVOKE) > 0, "stalls of %llu ms have memory asked for",
		   (unsigned long long)stalled / 1000);
	return client.notice_count > 0;
}

static void end(bool told)
{
	client_close(&client);
	ok(daemon_stop(&donor, SIGTERM) == 0, "a clean end");
	ok(!told || (strstr(donor.log, "memory is short") && strstr(donor.log, "to be given back within 4 s")),
	   "the log tells of it");
	if (tap_failed)
		printf("# %s\n", donor.log);
}

/* The figure: in how many of @runs the memory was back within the deadline. */
static void test_loop(unsigned runs)
{
	unsigned in_time = 0, began = 0;
	uint64_t most = 0, least = UINT64_MAX;

	for (unsigned run = 0; run < runs; run++) {
		struct hog hog;
		uint64_t took;

		if (!donor_start(LOOP_DEADLINE_MS) || !client_start() || !machine_needs(&hog, 3 * SLAB + SLAB / 2))
			break;
		began++;
		took = wait_available(RESERVE);
		in_time += took <= LOOP_DEADLINE_MS;
		most = took > most ? took : most;
		least = took < least ? took : least;
		hog_end(&hog);
		client_close(&client);
		daemon_stop(&donor, SIGTERM);
	}
	ok(began == runs && in_time == runs, "%u of %u in time, %llu to %llu ms", in_time, runs,
	   (unsigned long long)least, (unsigned long long)most);
}

static bool start(void)
{
	return ok(donor_start(DEADLINE_MS), "a donor that lends all but a quarter of its control group") &&
	       ok(client_start(), "a client with sixteen slabs");
}

int main(int argc, char **argv)
{
	const char *why;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	why = group_make(&group, "shrink", LIMIT);
	if (why)
		return tap_skip_all(why);
	if (argc > 3 && !strcmp(argv[2], "loop")) {
		test_loop((unsigned)strtoul(argv[3], NULL, 10));
	} else {
		if (start()) {
			test_released();
			test_not_released();
			end(true);
		}
		if (start()) {
			end(test_stalls());
		}
	}
	group_remove(&group);
	return tap_done();
}
