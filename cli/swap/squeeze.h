/*
 * squeeze: decides how many bytes of a control group are reclaimed next.
 *
 * Theory of operation. After each interval the caller reports how long the group's tasks have waited for memory. The
 * next step is a share of the group's size. It is largest if no task has waited, smaller the longer they have waited,
 * and 0 at the target. This is the rule of Senpai (Weiner et al., "TMO: Transparent Memory Offloading in Datacenters",
 * ASPLOS 2022).
 *
 * Tasks wait for a reclaimed page only when they need it again, which may be later. So the rule alone would take too
 * much, pause, and take too much again. Two things are added:
 * - Waiting beyond the target is a debt. No step follows until intervals with less waiting have paid the debt. So the
 *   mean over time returns to the target, however much one step has cost.
 * - Each interval above the target halves the pace of the following steps. The pace recovers by an eighth with each
 *   step. So the group's size settles above its working set.
 *
 * The kernel keeps no limit after a step. The group takes back the pages that it needs, while no step follows.
 *
 * The functions do no I/O and read no clock. Threads: any, one for each struct squeeze.
 */
#ifndef CLI_SQUEEZE_H
#define CLI_SQUEEZE_H

#include <stdint.h>

#define SQUEEZE_WHOLE 1000000u /* shares are in millionths */

struct squeeze_rule {
	uint32_t target;   /* the share of time that tasks may wait, above 0 */
	uint32_t max_step; /* the largest step, as a share of the group's size */
};

/* An interval that has just ended. Sizes are in bytes. */
struct squeeze_interval {
	uint64_t elapsed_us;
	uint64_t stalled_us; /* how much of it at least one task of the group waited for memory */
	uint64_t size;       /* of the group's memory at the end of the interval */
	uint64_t floor;      /* steps leave the group this much */
	uint64_t room;       /* free swap space; a step takes no more */
};

struct squeeze {
	uint32_t pace; /* of the next step, in millionths of the rule's step */
	uint64_t debt_us;
};

void squeeze_init(struct squeeze *squeeze);
/* Returns the number of bytes to reclaim now, in whole pages, or 0. */
uint64_t squeeze_step(struct squeeze *squeeze, const struct squeeze_rule *rule,
		      const struct squeeze_interval *interval);

#endif
