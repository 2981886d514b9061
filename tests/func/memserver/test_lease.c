/* What a lease is good for, and for whom. */
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SLAB (1u << 20)

static void come(struct client *client, const struct daemon *daemon, const char *name)
{
	int status;

	client_init(client, daemon->uri, NULL, name);
	status = client_come(client);
	if (!status)
		status = client_attach(client, 0);
	if (status) {
		printf("Bail out! %s cannot come: %d\n", name, status);
		exit(EXIT_FAILURE);
	}
}

static void fill(struct client *client, unsigned seed, unsigned length)
{
	for (unsigned i = 0; i < length; i++)
		client->buffer[i] = (char)(i * 31 + seed);
}

static bool filled(const struct client *client, unsigned seed, unsigned length)
{
	for (unsigned i = 0; i < length; i++)
		if (client->buffer[i] != (char)(i * 31 + seed))
			return false;
	return true;
}

static bool zeroed(const struct client *client, unsigned length)
{
	for (unsigned i = 0; i < length; i++)
		if (client->buffer[i])
			return false;
	return true;
}

static void test_life(struct daemon *daemon)
{
	struct wire_message grant, again;
	struct client client, next;

	come(&client, daemon, "first");
	ok(client_lease(&client, &grant) == 0 && grant.granted.bytes == SLAB, "a lease");
	ok(grant.granted.capacity.leased == SLAB && grant.granted.capacity.clients == 1, "counted");
	memset(client.buffer, 1, SLAB);
	ok(client_read(&client, grant.granted.address, grant.granted.rkey, SLAB) == 0 && zeroed(&client, SLAB),
	   "zeroes at first");
	fill(&client, 5, SLAB);
	ok(client_write(&client, grant.granted.address, grant.granted.rkey, SLAB) == 0, "written");
	memset(client.buffer, 1, SLAB);
	ok(client_read(&client, grant.granted.address, grant.granted.rkey, SLAB) == 0 && filled(&client, 5, SLAB),
	   "read back");
	ok(client_read(&client, grant.granted.address + SLAB - 4096, grant.granted.rkey, 4096) == 0 &&
	       !memcmp(client.buffer, (char[]){(char)((SLAB - 4096) * 31 + 5)}, 1),
	   "its last page");
	ok(client_release(&client, grant.granted.slab) == 0, "released");
	ok(client_release(&client, grant.granted.slab) == WIRE_REASON_TAKEN, "twice: denied");
	ok(client_wait_capacity(&client, 0, 1), "all free again");

	come(&next, daemon, "next");
	ok(client_lease(&next, &again) == 0 &&
	       client_read(&next, again.granted.address, again.granted.rkey, SLAB) == 0 && zeroed(&next, SLAB),
	   "the next owner finds zeroes");
	ok(client_release(&client, again.granted.slab) == WIRE_REASON_MALFORMED, "another's slab: denied");
	ok(client_read(&client, grant.granted.address, grant.granted.rkey, 4096) < 0,
	   "the released slab's key is dead");
	client_bye(&client);
	client_bye(&next);
	client_wait_end(&client, client.session);
	client_wait_end(&next, next.session);
	client_close(&client);
	client_close(&next);
}

/* Each of these ends the data connection of who tries, and nothing else. */
static void test_out_of_bounds(struct daemon *daemon)
{
	struct client owner, thief;
	struct wire_message theirs, mine;

	come(&owner, daemon, "owner");
	come(&thief, daemon, "thief");
	client_lease(&owner, &theirs);
	client_lease(&thief, &mine);
	fill(&owner, 9, SLAB);
	ok(client_write(&owner, theirs.granted.address, theirs.granted.rkey, SLAB) == 0, "somebody's data");

	memset(thief.buffer, 0, SLAB);
	ok(client_read(&thief, theirs.granted.address, theirs.granted.rkey, 4096) < 0 && zeroed(&thief, 4096),
	   "another client's address and key: refused");
	ok(client_attach(&thief, 0) == 0, "it may come back");
	ok(client_write(&thief, theirs.granted.address, theirs.granted.rkey, 4096) < 0, "to write there: refused");
	ok(client_attach(&thief, 0) == 0 && client_read(&thief, theirs.granted.address, mine.granted.rkey, 4096) < 0,
	   "another's address with its own key: refused");
	ok(client_attach(&thief, 0) == 0 &&
	       client_read(&thief, mine.granted.address + SLAB - 2048, mine.granted.rkey, 4096) < 0,
	   "beyond the end of its own: refused");
	ok(client_attach(&thief, 0) == 0 && client_write(&thief, mine.granted.address - 1, mine.granted.rkey, 4096) < 0,
	   "before its beginning: refused");
	ok(client_attach(&thief, 0) == 0 && client_read(&thief, UINT64_MAX - 100, mine.granted.rkey, 4096) < 0,
	   "where addresses wrap around: refused");

	ok(client_read(&owner, theirs.granted.address, theirs.granted.rkey, SLAB) == 0 && filled(&owner, 9, SLAB),
	   "the owner's data and connection are as they were");
	client_bye(&owner);
	client_bye(&thief);
	client_wait_end(&owner, owner.session);
	client_wait_end(&thief, thief.session);
	client_close(&owner);
	client_close(&thief);
}

static void test_full(void)
{
	static struct daemon daemon;
	struct wire_message grants[4], more;
	struct client client;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--quota", "3M")), "a small donor"))
		return;
	come(&client, &daemon, "greedy");
	for (int i = 0; i < 3; i++)
		ok(client_lease(&client, &grants[i]) == 0, "slab %d", i);
	ok(client_lease(&client, &more) == WIRE_REASON_FULL && more.denied.capacity.leased == 3 * SLAB,
	   "no more than the quota, and told what there is");
	ok(client_release(&client, grants[1].granted.slab) == 0 && client_lease(&client, &grants[1]) == 0,
	   "one back, one more");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

static void test_reserve(void)
{
	static struct daemon daemon;
	struct wire_message grant;
	struct client client;
	char reserve[32], line[128];
	unsigned long long total = 0, available = 0;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof line, file)) {
		sscanf(line, "MemTotal: %llu", &total);
		sscanf(line, "MemAvailable: %llu", &available);
	}
	if (file)
		fclose(file);
	/* between what is available and what there is, so that it starts but must not give */
	if (total - available < 64 << 10) {
		tap_skip("the reserve is kept", "all of this machine's memory is available");
		return;
	}
	snprintf(reserve, sizeof reserve, "%llu", (total - (total - available) / 2) << 10);
	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--reserve", reserve)),
		"a cautious donor"))
		return;
	come(&client, &daemon, "hopeful");
	ok(client_lease(&client, &grant) == WIRE_REASON_FULL && grant.denied.capacity.leased == 0,
	   "the reserve is kept");
	ok(daemon_log_wait(&daemon, "--reserve"), "and the log says why");
	ok(client_lease(&client, &grant) == WIRE_REASON_FULL && client_wait_capacity(&client, 0, 1),
	   "nothing is stuck");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	if (!ok(daemon_start(&daemon, ARGS("--donate", "8M", "--slab", "1M")), "a donor"))
		return tap_done();
	test_life(&daemon);
	test_out_of_bounds(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0 && strstr(daemon.log, "nothing is leased"),
	   "nothing is left of any of them");
	test_full();
	test_reserve();
	return tap_done();
}
