/* failure_domains: which donors fail together, and replicas that are kept apart whatever happens to donors. */
#include "client/lease/failure_domains.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHUNKS 8u
#define LAST (FAR_DONORS_MAX - 1)

static void donors_open(const char *const names[], unsigned donors, unsigned replicas, uint64_t seed)
{
	world_open(CHUNKS, donors, replicas, seed);
	for (unsigned i = 0; i < donors; i++) {
		leases_donor_named(&world.leases, i, names[i]);
		leases_donor_heard(&world.leases, i, 100 * SLAB);
	}
}

static bool apart(unsigned donors)
{
	for (unsigned i = 0; i < 32; i++)
		for (unsigned j = 0; j < i; j++)
			if (donors >> i & donors >> j & 1 &&
			    failure_domains_are_mates(&world.leases.failure_domains, i, j))
				return false;
	return true;
}

/* Returns the mates that @donor has among the first five donors and the last one, one bit each. The last donor has bit
   5. */
static unsigned mates(const struct failure_domains *domains, unsigned donor)
{
	unsigned mates = failure_domains_are_mates(domains, donor, LAST) ? 32 : 0;

	for (unsigned i = 0; i < 5; i++)
		mates |= failure_domains_are_mates(domains, donor, i) ? 1u << i : 0;
	return mates;
}

/* --- The module ------------------------------------------------------------------------------------------------- */

static void donors_of_one_name_are_mates(void)
{
	struct failure_domains domains = {0};

	ok(mates(&domains, 2) == 4 && failure_domains_count(&domains, 5) == 5,
	   "donors without names are each their own domain");
	failure_domains_name(&domains, 0, "rack1");
	failure_domains_name(&domains, 3, "rack1");
	failure_domains_name(&domains, 4, "rack10");
	ok(mates(&domains, 0) == 9 && mates(&domains, 3) == 9, "two donors of one name are mates");
	ok(mates(&domains, 4) == 16 && mates(&domains, 1) == 2, "donors of other names are not mates");
	ok(failure_domains_count(&domains, 5) == 4 && failure_domains_count(&domains, 1) == 1,
	   "five donors, two of them mates, make four domains");
	failure_domains_name(&domains, 3, "");
	ok(mates(&domains, 0) == 1 && failure_domains_count(&domains, 5) == 5,
	   "a donor that drops its name has no mates");
	failure_domains_forget(&domains, LAST);
	ok(mates(&domains, LAST) == 63 && mates(&domains, 0) == 33, "a donor not yet heard counts as everybody's mate");
	failure_domains_name(&domains, LAST, "rack10");
	ok(mates(&domains, LAST) == 48, "a donor that tells its name is a mate only in that domain");
}

static void lack_is_told_with_two_donors_that_share_a_domain(void)
{
	static const char *const uris[] = {"tcp://a", "tcp://b", "tcp://c", "tcp://d"};
	struct failure_domains domains = {0};
	char text[FAILURE_DOMAINS_TEXT_MAX] = "";

	failure_domains_name(&domains, 1, "rack1");
	failure_domains_name(&domains, 2, "rack2");
	failure_domains_name(&domains, 3, "rack2");
	ok(!failure_domains_lack(&domains, 4, 3, uris, text) && !*text, "three domains are enough for three replicas");
	ok(failure_domains_lack(&domains, 4, 4, uris, text) &&
	       strstr(text, "4 replicas cannot be kept in 3 failure domains (") &&
	       strstr(text, "(donors tcp://c and tcp://d are both in 'rack2')"),
	   "a line about too few domains names two donors that share one: %s", text);
	failure_domains_name(&domains, 0, "rack1");
	ok(failure_domains_lack(&domains, 3, 3, uris, text) &&
	       strstr(text, "(donors tcp://a and tcp://b are both in 'rack1')"),
	   "a line also names a domain that the first donor shares: %s", text);
}

/* --- Room ------------------------------------------------------------------------------------------------------- */

#define ROOM_DONORS 4u
#define ROOM_SLABS 4u /* each donor has fewer slabs than this */

/*
 * Tries all ways to begin chunks one after the other. Returns the most chunks that can begin. @known caches results by
 * the donors' free slabs.
 */
static unsigned tried(const char *const names[], unsigned free[], unsigned count, unsigned replicas, int8_t known[])
{
	unsigned state = 0, most = 0;

	for (unsigned i = 0; i < count; i++)
		state = state * ROOM_SLABS + free[i];
	if (known[state] >= 0)
		return (unsigned)known[state];
	for (unsigned set = 0; set < 1u << count; set++) {
		bool good = __builtin_popcount(set) == (int)replicas;
		unsigned more;

		for (unsigned i = 0; i < count; i++) {
			good &= !(set >> i & 1) || free[i];
			for (unsigned j = 0; j < i; j++)
				good &= (set >> i & set >> j & 1) == 0 || !*names[i] || strcmp(names[i], names[j]) != 0;
		}
		if (!good)
			continue;
		for (unsigned i = 0; i < count; i++)
			free[i] -= set >> i & 1;
		more = 1 + tried(names, free, count, replicas, known);
		for (unsigned i = 0; i < count; i++)
			free[i] += set >> i & 1;
		if (more > most)
			most = more;
	}
	known[state] = (int8_t)most;
	return most;
}

/* Compares all small sets of donors and domains with an exhaustive search. */
static void room_equals_an_exhaustive_placement(void)
{
	static const char *const words[] = {"", "a", "b", "c"};
	unsigned wrong = 0, compared = 0;

	for (unsigned names = 0; names < 256; names++) {
		for (unsigned replicas = 1; replicas <= 3; replicas++) {
			const char *said[ROOM_DONORS];
			int8_t known[256];

			memset(known, -1, sizeof known);
			for (unsigned i = 0; i < ROOM_DONORS; i++)
				said[i] = words[names >> (2 * i) & 3];
			for (unsigned slabs = 0; slabs < 256; slabs++) {
				struct failure_domains_share shares[ROOM_DONORS];
				unsigned free[ROOM_DONORS];

				for (unsigned i = 0; i < ROOM_DONORS; i++) {
					free[i] = slabs >> (2 * i) & 3;
					shares[i] =
					    (struct failure_domains_share){.failure_domain = said[i], .slabs = free[i]};
				}
				compared++;
				wrong += failure_domains_chunks(shares, ROOM_DONORS, replicas) !=
					 tried(said, free, ROOM_DONORS, replicas, known);
			}
		}
	}
	ok(!wrong, "the room of %u sets of donors equals that of placing chunk after chunk (%u differ)", compared,
	   wrong);
}

#define MIB UINT64_C(1048576)

/* @free and the result are in MiB. A slab is 16 MiB. */
static uint64_t room(unsigned replicas, unsigned count, const char *const names[], const uint64_t free[])
{
	struct far_donor_info donors[4] = {0};

	for (unsigned i = 0; i < count; i++) {
		donors[i] = (struct far_donor_info){
		    .donated = (free[i] + 100) * MIB, .leased = 100 * MIB, .slab_bytes = 16 * MIB};
		snprintf(donors[i].failure_domain, sizeof donors[i].failure_domain, "%s", names[i]);
	}
	return failure_domains_room(donors, count, replicas) / MIB;
}

static void room_depends_on_slabs_and_domains(void)
{
	static const char *const none[] = {"", "", "", ""}, *const racks[] = {"r1", "r1", "r2", "r2"};
	struct far_donor_info donors[3] = {{.donated = 64 * MIB, .slab_bytes = 16 * MIB}};

	ok(room(1, 1, none, (uint64_t[]){79}) == 64, "room counts whole slabs only");
	ok(room(1, 1, none, (uint64_t[]){15}) == 0, "less than a slab gives no room");
	ok(room(1, 2, none, (uint64_t[]){64, 32}) == 96, "two donors' room adds up for one replica");
	ok(room(2, 2, none, (uint64_t[]){64, 32}) == 32,
	   "with a replica on each of two donors the smaller one decides");
	ok(room(2, 3, none, (uint64_t[]){64, 32, 32}) == 64, "two replicas on three donors share the room");
	ok(room(2, 3, none, (uint64_t[]){64, 64, 64}) == 96, "two replicas on three equal donors use all of the room");
	ok(room(2, 4, racks, (uint64_t[]){64, 64, 16, 32}) == 48,
	   "two replicas in two racks have the room of the smaller rack");
	ok(room(1, 4, racks, (uint64_t[]){64, 64, 16, 32}) == 176, "one replica uses the room of both racks");
	ok(room(3, 4, racks, (uint64_t[]){64, 64, 64, 64}) == 0, "three replicas in two racks have no room");
	donors[1] = (struct far_donor_info){.donated = 64 * MIB, .slab_bytes = 16 * MIB, .status = -ETIMEDOUT};
	ok(failure_domains_room(donors, 3, 1) == 64 * MIB && failure_domains_room(donors, 3, 2) == 0,
	   "donors that are lost or never came give no room");
	donors[0].leased = 80 * MIB;
	ok(failure_domains_room(donors, 3, 1) == 0, "a donor that has lent more than it donates gives no room");
}

/* --- New chunks ------------------------------------------------------------------------------------------------- */

static const char *const two_racks[] = {"r1", "r1", "r2", "r2"};

static void new_chunks_spread_over_domains(void)
{
	unsigned wrong = 0, kinds = 0;

	for (uint64_t seed = 0; seed < 100; seed++) {
		donors_open(two_racks, 4, 2, seed);
		for (uint32_t i = 0; i < CHUNKS; i++) {
			chunk_make(i);
			wrong += __builtin_popcount(chunk_full(i)) != 2 || !apart(chunk_full(i));
			kinds |= 1u << chunk_full(i);
		}
		world_close();
	}
	ok(!wrong, "two replicas of a new chunk never share a domain: %u do", wrong);
	ok(kinds == (1u << 5 | 1u << 6 | 1u << 9 | 1u << 10), "new chunks use every pair of donors from two domains");
}

static void denied_donors_are_replaced_within_their_domain(void)
{
	struct leases_action action;
	unsigned denied = 0, donors = 0;

	donors_open(two_racks, 4, 2, 1);
	chunk_want(3, 0);
	while (world_next_is(LEASES_ASK, &action)) {
		donors |= 1u << action.donor;
		if (action.donor < 2)
			world_grant(&action, 103, 1);
		else if (++denied == 1)
			leases_denied(&world.leases, action.donor, action.request, 1);
		else
			world_grant(&action, 103, 1);
	}
	ok(apart(chunk_full(3)) && __builtin_popcount(chunk_full(3)) == 2 && (donors & 12) == 12,
	   "the mate of a donor without room is asked for a slab");
	chunk_want(4, 0);
	while (world_next_is(LEASES_ASK, &action)) {
		if (action.donor < 2)
			world_grant(&action, 104, 1);
		else
			leases_denied(&world.leases, action.donor, action.request, 1);
	}
	ok(chunk_state(&world.table, 4) == CHUNK_NONE && world.table.chunks[4].denial == -ENOSPC &&
	       action.kind == LEASES_RELEASE && action.donor < 2,
	   "a chunk does not begin with both replicas in one domain when the other has no room");
	world_close();
}

/* The chunk gets its second replica only when a donor comes back in another domain. */
static void one_domain_holds_one_replica(void)
{
	static const char *const names[] = {"r1", "r1", "r1"};
	struct leases_action action;
	int donor, join;

	donors_open(names, 3, 2, 1);
	chunk_make(3);
	ok(__builtin_popcount(chunk_full(3)) == 1 && chunk_replicas_missing(&world.table, 3) == 1,
	   "a chunk in a single domain begins with one replica");
	ok(world_ask(0, &action) < 0 && world_ask(10 * PAUSE, &action) < 0,
	   "a chunk in a single domain gets no second replica there");
	donor = chunk_full(3) == 1 ? 1 : 0;
	leases_donor_away(&world.leases, (unsigned)donor, 20 * PAUSE);
	leases_donor_named(&world.leases, (unsigned)donor, "r2");
	leases_donor_back(&world.leases, (unsigned)donor, 0, 100 * SLAB, 20 * PAUSE);
	ok(world_ask(20 * PAUSE, &action) == donor, "a donor that returns in another domain is asked for a slab");
	join = world_join(&action, 203, 20 * PAUSE);
	leases_filled(&world.leases, (unsigned)join, true, 20 * PAUSE);
	ok(apart(chunk_full(3)) && !chunk_replicas_missing(&world.table, 3),
	   "a donor that returned in another domain gets the second replica");
	world_close();
}

static void idle_chunk_in_one_domain_is_not_reused(void)
{
	struct leases_action action;
	struct chunk_view view;
	unsigned before, released = 0;

	donors_open(two_racks, 4, 2, 1);
	chunk_make(3);
	before = chunk_full(3);
	chunk_view(&world.table, 3, &view);
	chunk_drop(&world.table, 3, view.epoch, 1);
	leases_scan(&world.leases, 1);
	for (unsigned i = 0; i < 4; i++) {
		if (!(before >> i & 1))
			continue;
		leases_donor_away(&world.leases, i, 2);
		leases_donor_named(&world.leases, i, "r3");
		leases_donor_back(&world.leases, i, 1, 100 * SLAB, 2);
	}
	ok(chunk_full(3) == before, "donors that return as mates keep their replicas");
	chunk_want(4, 0);
	while (world_next(&action)) {
		if (action.kind == LEASES_ASK)
			world_grant(&action, 104, 3);
		else
			released |= 1u << action.donor;
	}
	ok(released == before && chunk_full(4) && apart(chunk_full(4)),
	   "an idle chunk in one domain is released and not reused by another chunk");
	world_close();
}

/* --- Chunks that lack a replica ------------------------------------------------------------------------------- */

static void lost_replica_is_rebuilt_apart(void)
{
	struct leases_action action;
	unsigned there, mate;
	int join;

	donors_open(two_racks, 4, 2, 1);
	chunk_make(3);
	there = (unsigned)__builtin_ctz(chunk_full(3) & 12);
	mate = there ^ 1;
	leases_donor_lost(&world.leases, there, 10);
	ok(world_ask(10, &action) == (int)mate, "a lost donor's replica is rebuilt on its mate, the only donor apart");
	join = world_join(&action, 203, 10);
	leases_filled(&world.leases, (unsigned)join, true, 20);
	ok(chunk_full(3) >> mate & 1 && apart(chunk_full(3)) && !chunk_replicas_missing(&world.table, 3),
	   "a replica rebuilt on the mate leaves no replica lacking");
	leases_donor_lost(&world.leases, mate, 30);
	ok(world_ask(30, &action) < 0 && world_ask(30 + 10 * PAUSE, &action) < 0 &&
	       chunk_replicas_missing(&world.table, 3) == 1,
	   "a lacking replica waits while a whole domain is gone");
	leases_donor_named(&world.leases, there, "r2");
	leases_donor_back(&world.leases, there, 0, 100 * SLAB, 40 + 10 * PAUSE);
	ok(world_ask(40 + 10 * PAUSE, &action) == (int)there,
	   "a returning donor of the lost domain is asked for a slab");
	world_close();
}

/* Before a donor grants the slab, the other replica's donor goes away and returns in the same domain. */
static void granted_slab_beside_a_replica_is_released(void)
{
	static const char *const names[] = {"r1", "r2", "r3"};
	struct leases_action action, other;
	unsigned stays, goes;
	int donor;

	donors_open(names, 3, 2, 1);
	chunk_make(3);
	stays = (unsigned)__builtin_ctz(chunk_full(3));
	goes = (unsigned)__builtin_ctz(chunk_full(3) & ~(1u << stays));
	leases_donor_lost(&world.leases, goes, 10);
	donor = world_ask(10, &action);
	leases_donor_away(&world.leases, stays, 11);
	leases_donor_named(&world.leases, stays, names[donor]);
	leases_donor_back(&world.leases, stays, 1, 100 * SLAB, 12);
	world_grant(&action, 203, 13);
	ok(world_next(&other) && other.kind == LEASES_RELEASE && other.donor == (unsigned)donor && other.slab == 203,
	   "a slab granted in the domain of the other replica is released");
	ok(chunk_full(3) == 1u << stays && world_ask(13 + PAUSE, &action) < 0,
	   "a slab released because of its domain is not asked for again");
	world_close();
}

/* After an adoption, the domain of a donor that has not answered yet is unknown. */
static void unheard_donor_blocks_placement(void)
{
	static const char *const names[] = {"", "", "", ""};
	const struct chunk_slot slots[FAR_REPLICAS_MAX] = {
	    {.address = 4096, .rkey = 1, .donor = 0, .slab = 7},
	    {.address = 4096, .rkey = 1, .donor = 1, .slab = 8},
	    {.state = SLOT_EMPTY},
	};
	static const char *const said[] = {"r2", "r1", "r2", "r3"};
	struct leases_action action;
	struct chunk_view view;

	donors_open(names, 4, 3, 1);
	chunk_hold(&world.table, 3, 1, &view);
	chunk_publish(&world.table, 3, slots);
	chunk_hold(&world.table, 3, 1, &view);
	for (unsigned i = 0; i < 4; i++)
		leases_donor_adopt(&world.leases, i, i < 2);
	for (unsigned i = 1; i < 4; i++) {
		leases_donor_named(&world.leases, i, said[i]);
		leases_donor_back(&world.leases, i, i < 2, 100 * SLAB, 10);
	}
	ok(chunk_replicas_missing(&world.table, 3) == 1 && world_ask(10, &action) < 0 &&
	       world_ask(10 + PAUSE, &action) < 0,
	   "no replica is placed beside a slot on a donor not yet heard");
	leases_donor_named(&world.leases, 0, said[0]);
	leases_donor_back(&world.leases, 0, 1, 100 * SLAB, 20 + PAUSE);
	ok(world_ask(20 + PAUSE, &action) == 3, "a donor apart from all replicas is asked once every donor was heard");
	world_close();
}

/* --- Recalled slabs ------------------------------------------------------------------------------------------- */

static void recalled_slab_makes_room_in_its_domain(void)
{
	struct leases_action action;
	unsigned before, from;
	int join;

	donors_open(two_racks, 4, 2, 1);
	chunk_make(3);
	before = chunk_full(3);
	from = (unsigned)__builtin_ctz(before);
	leases_recall(&world.leases, from, 103, 1000, 10);
	ok(world_ask(10, &action) == (int)(from ^ 1), "a recalled slab is replaced on its donor's mate");
	join = world_join(&action, 203, 10);
	leases_filled(&world.leases, (unsigned)join, true, 20);
	ok(chunk_full(3) == ((before & ~(1u << from)) | 1u << (from ^ 1)),
	   "a slab filled on the mate replaces the recalled slab");
	world_close();

	for (uint64_t seed = 0, last = 20; seed < last; seed++) {
		donors_open(two_racks, 4, 2, seed);
		chunk_make(3);
		before = chunk_full(3);
		leases_recall(&world.leases, (unsigned)__builtin_ctz(before & 3), 103, 1000, 10);
		leases_recall(&world.leases, (unsigned)__builtin_ctz(before & 12), 103, 1000, 10);
		world_ask(10, &action);
		join = world_join(&action, 203, 10);
		leases_filled(&world.leases, (unsigned)join, true, 20);
		if (__builtin_popcount(chunk_full(3)) != 2 || !apart(chunk_full(3)) || seed + 1 == last)
			ok(apart(chunk_full(3)) && __builtin_popcount(chunk_full(3)) == 2,
			   "of two recalled slabs the one in the new slab's domain is replaced first (seed %u)",
			   (unsigned)seed);
		world_close();
	}
}

static void join_beside_a_kept_slab_is_drained(void)
{
	static const char *const names[] = {"r1", "r1", "r2", "r3"};
	struct leases_action action;
	unsigned from, before;
	int join;

	donors_open(names, 4, 3, 1);
	chunk_make(3);
	from = (unsigned)__builtin_ctz(chunk_full(3) & 3);
	leases_donor_lost(&world.leases, 3, 5);
	before = chunk_full(3);
	leases_recall(&world.leases, from, 103, 1000, 10);
	ok(world_ask(10, &action) == (int)(from ^ 1),
	   "a chunk that lacks a replica and has a recalled one asks the recalled donor's mate");
	join = world_join(&action, 203, 10);
	leases_keep(&world.leases, from, 103);
	leases_filled(&world.leases, (unsigned)join, true, 20);
	ok(chunk_full(3) == before && world_next_is(LEASES_DRAIN, &action),
	   "a slab filled beside a kept one in its domain is drained");
	world_close();
}

/* After an adoption, a donor that has not answered yet may be any donor's mate. A lost donor is nobody's mate. */
static void chunk_in_one_rack_waits_for_an_unheard_donor(void)
{
	static const char *const names[] = {"r1", "r2", "", ""};
	struct leases_action action;

	donors_open(names, 3, 2, 1);
	leases_donor_heard(&world.leases, 2, 0);
	chunk_make(3);
	ok(chunk_full(3) == 3, "a chunk begins in two racks");
	leases_donor_heard(&world.leases, 2, 100 * SLAB);
	leases_donor_adopt(&world.leases, 2, 0);
	leases_donor_named(&world.leases, 1, "r1");
	leases_tick(&world.leases, 10);
	ok(world_is_quiet(), "a chunk whose racks become one is not moved while a third donor is not heard");
	leases_donor_lost(&world.leases, 2, 20);
	leases_donor_back(&world.leases, 2, 0, 100 * SLAB, 30);
	leases_tick(&world.leases, 30);
	ok(world_next_is(LEASES_ASK, &action) && action.donor == 2,
	   "a chunk whose racks became one moves once the third donor holds no slab");
	world_close();
}

int main(void)
{
	donors_of_one_name_are_mates();
	lack_is_told_with_two_donors_that_share_a_domain();
	room_equals_an_exhaustive_placement();
	room_depends_on_slabs_and_domains();
	new_chunks_spread_over_domains();
	denied_donors_are_replaced_within_their_domain();
	one_domain_holds_one_replica();
	idle_chunk_in_one_domain_is_not_reused();
	lost_replica_is_rebuilt_apart();
	granted_slab_beside_a_replica_is_released();
	unheard_donor_blocks_placement();
	recalled_slab_makes_room_in_its_domain();
	join_beside_a_kept_slab_is_drained();
	chunk_in_one_rack_waits_for_an_unheard_donor();
	return tap_done();
}
