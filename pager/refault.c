#include "pager/refault.h"

#include "pager/pages.h"

#define SHARE_BITS 4 /* a generation is the budget divided by 2^4 to 2^5 */

static int32_t get(const int32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add(int32_t *counter, int32_t amount)
{
	__atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static void add_to_generation(struct refault *refault, uint32_t generation, int32_t amount)
{
	uint32_t slot = generation % REFAULT_GENERATIONS;

	add(&refault->far[slot], amount);
	add(&refault->sums[slot / REFAULT_BLOCK], amount);
}

void refault_open(struct refault *refault, struct histogram *depths, uint64_t budget)
{
	*refault = (struct refault){.depths = depths};
	while (budget >> refault->shift >= 2u << SHARE_BITS)
		refault->shift++;
}

uint32_t refault_stamp(const struct refault *refault)
{
	uint64_t departed = __atomic_load_n(&refault->departed, __ATOMIC_RELAXED);

	return (uint32_t)(departed >> refault->shift) & PAGE_FRAME_MAX;
}

void refault_count(struct refault *refault)
{
	uint32_t stamp = refault_stamp(refault);

	add_to_generation(refault, stamp, 1);
	__atomic_store_n(&refault->departed, refault->departed + 1, __ATOMIC_RELAXED);
	uint32_t next = refault_stamp(refault);
	if (next == stamp)
		return;
	int32_t left = get(&refault->far[next % REFAULT_GENERATIONS]);
	add_to_generation(refault, next, -left);
	add(&refault->oldest, left);
}

/* Returns how many generations are younger than that of @stamp. */
static uint32_t age_of(const struct refault *refault, uint32_t stamp)
{
	return (refault_stamp(refault) - stamp) & PAGE_FRAME_MAX;
}

static uint64_t depth_of(const struct refault *refault, uint32_t stamp)
{
	uint32_t age = age_of(refault, stamp), left = age < REFAULT_GENERATIONS ? age + 1 : REFAULT_GENERATIONS;
	int64_t depth = age < REFAULT_GENERATIONS ? 0 : get(&refault->oldest);

	for (uint32_t slot = stamp; left;) {
		slot %= REFAULT_GENERATIONS;
		bool whole = slot % REFAULT_BLOCK == 0 && left >= REFAULT_BLOCK;
		depth += get(whole ? &refault->sums[slot / REFAULT_BLOCK] : &refault->far[slot]);
		slot += whole ? REFAULT_BLOCK : 1;
		left -= whole ? REFAULT_BLOCK : 1;
	}
	return depth > 0 ? (uint64_t)depth : 0;
}

void refault_forget(struct refault *refault, uint32_t stamp)
{
	if (age_of(refault, stamp) < REFAULT_GENERATIONS)
		add_to_generation(refault, stamp, -1);
	else
		add(&refault->oldest, -1);
}

uint64_t refault_record(struct refault *refault, uint32_t stamp)
{
	uint64_t depth = depth_of(refault, stamp);

	histogram_record(refault->depths, depth);
	refault_forget(refault, stamp);
	return depth;
}
