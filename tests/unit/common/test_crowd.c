/* crowd: chooses which stranger makes room, so that a client gets in however fast strangers come. */
#include "common/crowd.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#define FLOODER UINT64_C(0x0a000001)
#define CLIENT UINT64_C(0x0a000002)
#define MS 1000u /* in us, as are all times here */
#define FLOOD_PERIOD (1000000u / 7000u)

static struct random_state chance;

static void crowd_fill(struct crowd_one *ones, uint32_t count, uint64_t origin, bool known)
{
	for (uint32_t i = 0; i < count; i++)
		ones[i] = (struct crowd_one){origin, known};
}

static void the_address_with_the_most_strangers_makes_room(void)
{
	struct crowd_one ones[CROWD_MAX], newcomer = {CLIENT, false};
	bool fair = true, own = true;

	crowd_fill(ones, CROWD_MAX, FLOODER, false);
	for (uint32_t i = 0; i < 5; i++)
		ones[i * 50].origin = 100 + i;
	for (int i = 0; i < 2000; i++)
		fair &= ones[crowd_victim(ones, CROWD_MAX, &newcomer, random_next(&chance))].origin == FLOODER;
	ok(fair, "a newcomer takes a place of the address with the most strangers");
	newcomer.origin = FLOODER;
	for (int i = 0; i < 2000; i++)
		own &= ones[crowd_victim(ones, CROWD_MAX, &newcomer, random_next(&chance))].origin == FLOODER;
	ok(own, "a newcomer from the address with the most strangers takes a place of that address");
	ones[0] = ones[1] = (struct crowd_one){CLIENT, false};
	ones[2] = (struct crowd_one){FLOODER, false};
	newcomer.origin = CLIENT;
	ok(crowd_victim(ones, 3, &newcomer, 7) < 2, "a newcomer counts among the strangers of its address");
}

static void strangers_of_one_address_are_equally_likely_to_go(void)
{
	struct crowd_one ones[16], newcomer = {FLOODER, false};
	unsigned victims[16] = {0}, least = UINT32_MAX;

	crowd_fill(ones, 16, FLOODER, false);
	for (int i = 0; i < 16000; i++)
		victims[crowd_victim(ones, 16, &newcomer, random_next(&chance))]++;
	for (int i = 0; i < 16; i++)
		least = victims[i] < least ? victims[i] : least;
	ok(least > 700, "strangers of one address are equally likely to go (the least likely: %u of 16000 times)",
	   least);
}

static void known_clients_make_no_room_for_strangers(void)
{
	struct crowd_one ones[16], stranger = {CLIENT, false}, known = {FLOODER, true};
	bool good = true;

	crowd_fill(ones, 15, FLOODER, true);
	ones[15] = (struct crowd_one){CLIENT, false};
	for (int i = 0; i < 1000; i++) {
		good &= crowd_victim(ones, 16, &stranger, random_next(&chance)) == 15;
		good &= crowd_victim(ones, 16, &known, random_next(&chance)) == 15;
	}
	ok(good, "a known client never makes room while there is a stranger");
	ones[15].known = true;
	ok(crowd_victim(ones, 16, &stranger, 1) == CROWD_NEWCOMER, "a stranger finds no room among known clients");
	ok(crowd_victim(ones, 16, &known, 1) < 15,
	   "a known client takes a place of the address with the most known clients");
	ones[0] = (struct crowd_one){1, false};
	ok(crowd_victim(ones, 1, &stranger, 0) == 0, "a stranger takes the place of the only stranger");
}

/* A table of strangers under a flood, and a client that needs some time to prove itself. */
struct flood {
	struct crowd_one ones[CROWD_MAX];
	uint32_t count, places;
	uint32_t client; /* the client's place, or CROWD_NEWCOMER for none */
};

static void flood_arrive(struct flood *flood, struct crowd_one one, bool is_client)
{
	uint32_t place = flood->count;

	if (flood->count < flood->places)
		flood->count++;
	else
		place = crowd_victim(flood->ones, flood->count, &one, random_next(&chance));
	if (place == CROWD_NEWCOMER)
		return;
	if (place == flood->client)
		flood->client = CROWD_NEWCOMER;
	flood->ones[place] = one;
	if (is_client)
		flood->client = place;
}

/* Returns how many times the client connected until it kept its place for @answer us, the time of its proof. */
static unsigned flood_tries(struct crowd_one client, unsigned answer)
{
	static struct flood flood;
	unsigned tries = 0;

	flood = (struct flood){.places = CROWD_MAX, .client = CROWD_NEWCOMER};
	for (unsigned i = 0; i < 7000; i++)
		flood_arrive(&flood, (struct crowd_one){FLOODER, false}, false);
	do {
		tries++;
		flood_arrive(&flood, client, true);
		for (unsigned at = 0; at < answer; at += FLOOD_PERIOD)
			flood_arrive(&flood, (struct crowd_one){FLOODER, false}, false);
	} while (flood.client == CROWD_NEWCOMER && tries < 1000);
	return tries;
}

static void clients_get_in_under_a_flood_of_hellos(void)
{
	unsigned other = 0, known = 0, same = 0, quick = 0;

	for (int i = 0; i < 100; i++) {
		other += flood_tries((struct crowd_one){CLIENT, false}, 500 * MS) == 1;
		known += flood_tries((struct crowd_one){FLOODER, true}, 500 * MS) == 1;
		same += flood_tries((struct crowd_one){FLOODER, false}, 20 * MS) <= 8;
		quick += flood_tries((struct crowd_one){FLOODER, false}, 2 * MS) <= 2;
	}
	ok(other == 100, "a client gets in at once under 7,000 hellos a second from elsewhere (%u of 100)", other);
	ok(known == 100, "a known client gets in at once under 7,000 hellos a second from its address (%u of 100)",
	   known);
	ok(same >= 95,
	   "a client of 20 ms gets in within 8 tries under 7,000 hellos a second from its address (%u of 100)", same);
	ok(quick >= 95,
	   "a client of 2 ms gets in within 2 tries under 7,000 hellos a second from its address (%u of 100)", quick);
}

int main(void)
{
	random_seed(&chance, 2026);
	the_address_with_the_most_strangers_makes_room();
	strangers_of_one_address_are_equally_likely_to_go();
	known_clients_make_no_room_for_strangers();
	clients_get_in_under_a_flood_of_hellos();
	return tap_done();
}
