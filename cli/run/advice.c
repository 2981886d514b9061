/* advice: see advice.h. */
#include "cli/run/advice.h"

#include "common/size.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PAGE 4096

static uint64_t more_bytes(const struct advice *advice)
{
	return advice->wanted_bytes > advice->local_bytes ? advice->wanted_bytes - advice->local_bytes : 0;
}

/* Returns the local memory of step @step in bytes. */
static uint64_t step_local(const struct advice *advice, unsigned step)
{
	return advice->local_bytes + (uint64_t)((unsigned __int128)more_bytes(advice) * step / ADVICE_STEPS);
}

/* Returns the first step whose additional memory holds @depth pages. */
static unsigned step_of_depth(const struct advice *advice, uint64_t depth)
{
	unsigned __int128 more = more_bytes(advice);
	assert(more);
	unsigned __int128 step = ((unsigned __int128)depth * PAGE * ADVICE_STEPS + more - 1) / more;
	return step < ADVICE_STEPS ? (unsigned)step : ADVICE_STEPS;
}

void advice_predict(struct advice *advice, const struct histogram *depths)
{
	uint64_t fetched = 0;

	for (unsigned step = 0; step <= ADVICE_STEPS; step++)
		advice->fetches[step] = 0;
	if (!more_bytes(advice))
		return;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		uint64_t count = __atomic_load_n(&depths->buckets[bucket], __ATOMIC_RELAXED);

		fetched += count;
		/* At first, each step counts only the fetches that end at this step. The loop below then sums them
		   up. */
		advice->fetches[step_of_depth(advice, histogram_bucket_end(bucket))] += count;
	}
	for (unsigned step = 0; step <= ADVICE_STEPS; step++) {
		fetched -= advice->fetches[step];
		advice->fetches[step] = fetched;
	}
}

uint64_t advice_fetches(const struct advice *advice, uint64_t local)
{
	unsigned step = ADVICE_STEPS;

	if (local >= advice->wanted_bytes)
		return 0;
	while (step && step_local(advice, step) > local)
		step--;
	return advice->fetches[step];
}

/* Returns the share of the present fetches that remains with a budget of @local bytes, from 0 to 1. */
static double remaining(const struct advice *advice, uint64_t local)
{
	uint64_t now = advice->fetches[0];

	return now ? (double)advice_fetches(advice, local) / (double)now : 0;
}

static double own_ns(const struct advice *advice)
{
	return advice->computing_ns > advice->pager_ns ? (double)(advice->computing_ns - advice->pager_ns) : 0;
}

double advice_waiting(const struct advice *advice, uint64_t local)
{
	double part = remaining(advice, local), waiting = (double)advice->waiting_ns * part;
	double computing = own_ns(advice) + ((double)advice->computing_ns - own_ns(advice)) * part;

	return waiting > 0 ? waiting / (waiting + computing) : 0;
}

uint64_t advice_wall_ns(const struct advice *advice, uint64_t local)
{
	double waiting = (double)advice->waiting_ns, wall = (double)advice->wall_ns;
	double busy = waiting + own_ns(advice), rest = wall > busy ? wall - busy : 0;
	double pager = (double)advice->computing_ns - own_ns(advice), gone = 1 - remaining(advice, local);
	/* If several threads wait or compute at once, a second of waiting is less than a second of the run. In the
	   rest, all threads of the program neither wait nor compute, perhaps because the pager's threads have the
	   processor. */
	double saved = (busy > wall ? waiting * wall / busy : waiting) + (pager < rest ? pager : rest);

	return (uint64_t)(wall - saved * gone);
}

bool advice_is_due(const struct advice *advice)
{
	return advice->fetches[0] >= ADVICE_FETCHES_MIN && advice->waiting_ns >= ADVICE_WAITING_MIN_NS &&
	       advice_waiting(advice, advice->local_bytes) >= ADVICE_LITTLE;
}

uint64_t advice_local(const struct advice *advice, double share)
{
	unsigned step = 0;

	while (step < ADVICE_STEPS && advice_waiting(advice, step_local(advice, step)) >= share)
		step++;
	return step_local(advice, step);
}

const char *advice_size(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
	uint64_t mib = (bytes + (1 << 20) - 1) >> 20, tenths = (mib * 10 + 1023) / 1024; /* of a GiB */

	if (mib < 10000)
		snprintf(text, SIZE_TEXT_MAX, "%uM", (unsigned)mib);
	else
		snprintf(text, SIZE_TEXT_MAX, "%.1fG", (double)tenths / 10);
	return text;
}

const char *advice_text(const struct advice *advice, char text[ADVICE_TEXT_MAX])
{
	static const struct {
		double share;
		const char *text;
	} aims[] = {{ADVICE_HALF, "about 50%"}, {ADVICE_LITTLE, "about 10%"}, {ADVICE_NONE, "hardly any"}};
	enum { AIMS = sizeof aims / sizeof aims[0] };
	double now = advice_waiting(advice, advice->local_bytes);
	char local[AIMS][SIZE_TEXT_MAX];
	int length;
	*text = '\0';
	if (!advice_is_due(advice))
		return text;
	for (unsigned i = 0; i < AIMS; i++)
		advice_size(advice_local(advice, aims[i].share), local[i]);
	length = snprintf(text, ADVICE_TEXT_MAX, "%.0f%% of its time waiting for far memory", now * 100);
	for (unsigned i = 0; i < AIMS; i++) {
		/* If two aims need the same budget, names only the better aim. */
		if (now < aims[i].share || (i + 1 < AIMS && strcmp(local[i], local[i + 1]) == 0))
			continue;
		length += snprintf(text + length, (size_t)(ADVICE_TEXT_MAX - length), "%c %s with --local %s",
				   strchr(text, ';') ? ',' : ';', aims[i].text, local[i]);
	}
	return text;
}
