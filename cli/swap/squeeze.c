/* squeeze: see squeeze.h. */
#include "cli/swap/squeeze.h"

#include "common/least.h"

#define PAGE 4096u
#define PACE_MIN (SQUEEZE_WHOLE / 64)
#define PACE_GAIN 8 /* a step raises the pace by 1/PACE_GAIN */
/* The most that the debt can be, in intervals of the target. So a long time of pressure that has other causes stops the
   steps for this many quiet intervals only. */
#define DEBT_INTERVALS 100

/* Returns @of * @part / @whole. @part is at most @whole. */
static uint64_t share(uint64_t of, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)of * part / whole);
}

void squeeze_init(struct squeeze *squeeze)
{
	*squeeze = (struct squeeze){.pace = SQUEEZE_WHOLE};
}

/* Notes that an interval had no step. @allowed_us is the waiting that the target allows in it. */
static void wait_on(struct squeeze *squeeze, uint64_t stalled_us, uint64_t allowed_us)
{
	const uint64_t owed = squeeze->debt_us + stalled_us - allowed_us;

	squeeze->debt_us = least(owed, allowed_us * DEBT_INTERVALS);
	if (stalled_us > allowed_us && squeeze->pace / 2 >= PACE_MIN)
		squeeze->pace /= 2;
}

uint64_t squeeze_step(struct squeeze *squeeze, const struct squeeze_rule *rule, const struct squeeze_interval *interval)
{
	const uint64_t stalled = least(interval->stalled_us, interval->elapsed_us);
	const uint64_t allowed = share(interval->elapsed_us, rule->target, SQUEEZE_WHOLE);
	const uint64_t spare = interval->size > interval->floor ? interval->size - interval->floor : 0;
	uint64_t bytes;

	if (squeeze->debt_us + stalled >= allowed) {
		wait_on(squeeze, stalled, allowed);
		return 0;
	}
	bytes = share(interval->size, rule->max_step, SQUEEZE_WHOLE);
	bytes = share(bytes, squeeze->pace, SQUEEZE_WHOLE);
	bytes = share(bytes, allowed - squeeze->debt_us - stalled, allowed);
	squeeze->debt_us = 0;
	squeeze->pace = (uint32_t)least(squeeze->pace + squeeze->pace / PACE_GAIN, SQUEEZE_WHOLE);
	bytes = least(bytes, least(spare, interval->room));
	return bytes / PAGE * PAGE;
}
