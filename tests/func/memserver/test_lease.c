/* Leases: their life, their bounds, the quota and the reserve. */
#include "tests/func/memserver/client.h"
#include "tests/lib/text.h"

#include <errno.h>
#include <signal.h>

#define SLAB (1u << 20)

static struct donor_process donor;

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

static void a_slab_is_leased_used_and_released(void)
{
	struct wire_message grant, again;
	struct client client, next;

	client_arrive(&client, &donor, "first");
	ok(client_lease(&client, &grant) == 0 && grant.granted.bytes == SLAB,
	   "a client leases a slab of the donor's slab size");
	ok(grant.granted.capacity.leased == SLAB && grant.granted.capacity.clients == 1,
	   "the grant counts the leased slab and its client");
	memset(client.buffer, 1, SLAB);
	ok(client_get(&client, &grant, SLAB) == 0 && zeroed(&client, SLAB), "a new slab reads as zeroes");
	fill(&client, 5, SLAB);
	ok(client_put(&client, &grant, SLAB) == 0, "a client writes a whole slab");
	memset(client.buffer, 1, SLAB);
	ok(client_get(&client, &grant, SLAB) == 0 && filled(&client, 5, SLAB),
	   "a read of the slab returns the written bytes");
	ok(client_read(&client, grant.granted.address + SLAB - 4096, grant.granted.rkey, 4096) == 0 &&
	       !memcmp(client.buffer, (char[]){(char)((SLAB - 4096) * 31 + 5)}, 1),
	   "a read of the slab's last page returns its bytes");
	ok(client_release(&client, grant.granted.slab) == 0, "a client releases its slab");
	ok(client_release(&client, grant.granted.slab) == WIRE_REASON_TAKEN, "a second release of the slab is denied");
	ok(client_wait_capacity(&client, 0, 1), "the donor has no leased slab after the release");

	client_arrive(&next, &donor, "next");
	ok(client_lease(&next, &again) == 0 && client_get(&next, &again, SLAB) == 0 && zeroed(&next, SLAB),
	   "the slab's next owner reads zeroes");
	ok(client_release(&client, again.granted.slab) == WIRE_REASON_MALFORMED,
	   "a release of another client's slab is denied");
	ok(client_get(&client, &grant, 4096) < 0, "a read with a released slab's key fails");
	client_leave(&client);
	client_leave(&next);
}

/* Each bad access ends only the data connection of the client that tries it. */
static void access_outside_a_lease_is_refused(void)
{
	struct client owner, thief;
	struct wire_message theirs, mine;

	client_arrive(&owner, &donor, "owner");
	client_arrive(&thief, &donor, "thief");
	client_lease(&owner, &theirs);
	client_lease(&thief, &mine);
	fill(&owner, 9, SLAB);
	ok(client_put(&owner, &theirs, SLAB) == 0, "the owner of a slab writes it");

	memset(thief.buffer, 0, SLAB);
	ok(client_get(&thief, &theirs, 4096) < 0 && zeroed(&thief, 4096),
	   "a read with another client's address and key fails and returns no bytes");
	ok(client_attach(&thief, 0) == 0, "a client opens a new data connection after a bad read");
	ok(client_put(&thief, &theirs, 4096) < 0, "a write with another client's address and key fails");
	ok(client_attach(&thief, 0) == 0 && client_read(&thief, theirs.granted.address, mine.granted.rkey, 4096) < 0,
	   "a read of another client's address with one's own key fails");
	ok(client_attach(&thief, 0) == 0 &&
	       client_read(&thief, mine.granted.address + SLAB - 2048, mine.granted.rkey, 4096) < 0,
	   "a read beyond the end of the client's own slab fails");
	ok(client_attach(&thief, 0) == 0 && client_write(&thief, mine.granted.address - 1, mine.granted.rkey, 4096) < 0,
	   "a write before the beginning of the client's own slab fails");
	ok(client_attach(&thief, 0) == 0 && client_read(&thief, UINT64_MAX - 100, mine.granted.rkey, 4096) < 0,
	   "a read whose address wraps around fails");

	ok(client_get(&owner, &theirs, SLAB) == 0 && filled(&owner, 9, SLAB),
	   "bad accesses of another client leave the owner's data and connection intact");
	client_leave(&owner);
	client_leave(&thief);
}

static void a_client_gets_no_more_than_its_quota(void)
{
	struct wire_message grants[4], more;
	struct client client;

	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--quota", "3M");
	client_arrive(&client, &donor, "greedy");
	for (int i = 0; i < 3; i++)
		ok(client_lease(&client, &grants[i]) == 0, "a client leases slab %d of its quota", i);
	ok(client_lease(&client, &more) == WIRE_REASON_FULL && more.denied.capacity.leased == 3 * SLAB,
	   "a lease above the quota is denied, and the denial counts the leased slabs");
	ok(client_release(&client, grants[1].granted.slab) == 0 && client_lease(&client, &grants[1]) == 0,
	   "a client at its quota leases a slab after it releases one");
	client_close(&client);
	donor_end(&donor);
}

static void the_reserve_is_not_lent(void)
{
	struct wire_message grant;
	struct client client;
	char reserve[32];
	unsigned long long total = text_number("/proc/meminfo", "MemTotal:");
	unsigned long long available = text_number("/proc/meminfo", "MemAvailable:");

	/* The reserve is between the available and the total memory: the donor starts but must not lend. */
	if (total - available < 64 << 10) {
		tap_skip("a donor denies a lease that would use its reserve",
			 "all of this machine's memory is available");
		return;
	}
	snprintf(reserve, sizeof reserve, "%llu", (total - (total - available) / 2) << 10);
	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--reserve", reserve);
	client_arrive(&client, &donor, "hopeful");
	ok(client_lease(&client, &grant) == WIRE_REASON_FULL && grant.denied.capacity.leased == 0,
	   "a donor denies a lease that would use its reserve");
	ok(donor_log_wait(&donor, "--reserve"), "the log blames --reserve for the denied lease");
	ok(client_lease(&client, &grant) == WIRE_REASON_FULL && client_wait_capacity(&client, 0, 1),
	   "the donor answers and has no leased slab after a second denied lease");
	client_close(&client);
	donor_end(&donor);
}

int main(void)
{

	donor_start(&donor, "--donate", "8M", "--slab", "1M");
	a_slab_is_leased_used_and_released();
	access_outside_a_lease_is_refused();
	ok(donor_stop(&donor, SIGTERM) == 0 && strstr(donor.log, "nothing is leased"),
	   "the donor ends with 0 and logs that nothing is leased");
	a_client_gets_no_more_than_its_quota();
	the_reserve_is_not_lent();
	return tap_done();
}
