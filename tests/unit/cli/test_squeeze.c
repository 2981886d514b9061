/* Unit tests of cli/squeeze, with simulated control groups. */
#include "cli/swap/squeeze.h"
#include "common/least.h"
#include "tests/lib/mix.h"
#include "tests/lib/tap.h"

#define MIB (UINT64_C(1) << 20)
#define PAGE 4096u
#define INTERVAL_US UINT64_C(6000000)
#define TARGET 1000u    /* 0.1% */
#define MAX_STEP 10000u /* 1% */

static const struct squeeze_rule rule = {.target = TARGET, .max_step = MAX_STEP};

/* A group whose programs use the pages of the working set again and again, and never use the other pages. */
struct group {
	uint64_t working_set, idle; /* bytes, in memory and in swap */
	uint64_t hot_out, idle_out; /* bytes of them that are in swap */
	unsigned touched;           /* the percentage of the working set that is used in an interval */
	unsigned fault_us;          /* to read a page back */
	unsigned misses; /* the percentage of reclaimed pages that are in the working set although others are idle */
	uint64_t stalled_us; /* in all intervals so far */
	uint64_t intervals;
};

static uint64_t size_of(const struct group *group)
{
	return group->working_set - group->hot_out + group->idle - group->idle_out;
}

static void reclaim(struct group *group, uint64_t bytes)
{
	uint64_t idle = least(bytes - bytes / 100 * group->misses, group->idle - group->idle_out);

	group->idle_out += idle;
	group->hot_out = least(group->hot_out + bytes - idle, group->working_set);
}

/* The programs of the group run for an interval. Returns the time in which they waited. */
static uint64_t group_run(struct group *group)
{
	uint64_t back = group->hot_out * group->touched / 100;
	uint64_t stalled = least(back / PAGE * group->fault_us, INTERVAL_US);

	group->hot_out -= back;
	group->stalled_us += stalled;
	group->intervals++;
	return stalled;
}

/* Runs the group for an interval, and does the step. Returns the bytes of the step. */
static uint64_t step(struct squeeze *squeeze, struct group *group, uint64_t floor, uint64_t room)
{
	const uint64_t stalled = group_run(group);
	const struct squeeze_interval interval = {INTERVAL_US, stalled, size_of(group), floor, room};
	const uint64_t bytes = squeeze_step(squeeze, &rule, &interval);

	reclaim(group, bytes);
	return bytes;
}

/* Returns the mean pressure in millionths. */
static uint64_t mean(const struct group *group)
{
	return group->stalled_us * SQUEEZE_WHOLE / (group->intervals * INTERVAL_US);
}

static void group_shrinks_to_its_working_set(void)
{
	struct group group = {.working_set = 1024 * MIB, .idle = 3072 * MIB, .touched = 50, .fault_us = 50};
	struct squeeze squeeze;
	unsigned steps = 0;

	squeeze_init(&squeeze);
	while (size_of(&group) > 1100 * MIB && steps++ < 500)
		step(&squeeze, &group, 0, UINT64_MAX);
	ok(steps <= 150, "4G with a working set of 1G are below 1.1G after 150 steps of at most 1%% (%u)", steps);
	uint64_t lowest = UINT64_MAX, highest = 0, size;
	for (unsigned i = 0; i < 2000; i++) {
		step(&squeeze, &group, 0, UINT64_MAX);
		size = size_of(&group);
		lowest = least(lowest, size);
		highest = size > highest ? size : highest;
	}
	ok(lowest >= 1003 * MIB, "the group stays within 2%% of its working set (%llu MiB)",
	   (unsigned long long)(lowest / MIB));
	ok(highest <= 1100 * MIB, "the group does not grow again (%llu MiB)", (unsigned long long)(highest / MIB));
	ok(mean(&group) <= TARGET, "the mean pressure is at most the target (%llu)", (unsigned long long)mean(&group));
}

static void step_depends_on_pressure(void)
{
	struct squeeze_interval interval = {INTERVAL_US, 0, 1000 * MIB, 0, UINT64_MAX};
	struct squeeze squeeze;
	uint64_t bytes;

	squeeze_init(&squeeze);
	ok(squeeze_step(&squeeze, &rule, &interval) == 10 * MIB, "a step without pressure is max-step");
	interval.stalled_us = INTERVAL_US / 2000;
	bytes = squeeze_step(&squeeze, &rule, &interval);
	ok(bytes == 5 * MIB, "a step at half the target is half of max-step");
	interval.stalled_us = INTERVAL_US / 1000;
	ok(squeeze_step(&squeeze, &rule, &interval) == 0, "no step follows an interval at the target");
	ok(squeeze.debt_us == 0 && squeeze.pace == SQUEEZE_WHOLE, "an interval at the target is no debt");
	interval.stalled_us = INTERVAL_US;
	ok(squeeze_step(&squeeze, &rule, &interval) == 0, "no step follows an interval of waiting alone");
	interval.stalled_us = UINT64_MAX;
	ok(squeeze_step(&squeeze, &rule, &interval) == 0, "no step follows figures that cannot be true");
	interval = (struct squeeze_interval){.size = 1000 * MIB, .room = UINT64_MAX};
	ok(squeeze_step(&squeeze, &rule, &interval) == 0, "no step follows an interval without time");
}

/* Returns the number of quiet intervals until the next step. */
static unsigned quiet_until_step(struct squeeze *squeeze, uint64_t *ret_bytes)
{
	const struct squeeze_interval quiet = {INTERVAL_US, 0, 1000 * MIB, 0, UINT64_MAX};
	unsigned count = 1;

	while (!(*ret_bytes = squeeze_step(squeeze, &rule, &quiet)) && count < 1000)
		count++;
	return count;
}

static void waiting_beyond_the_target_is_paid_first(void)
{
	struct squeeze_interval bad = {INTERVAL_US, INTERVAL_US / 100, 1000 * MIB, 0, UINT64_MAX};
	struct squeeze squeeze;
	uint64_t bytes;
	unsigned quiet;

	squeeze_init(&squeeze);
	squeeze_step(&squeeze, &rule, &bad);
	quiet = quiet_until_step(&squeeze, &bytes);
	ok(quiet == 10, "an interval of ten times the target makes up for itself by nine quiet intervals (%u)", quiet);
	ok(bytes == 5 * MIB / PAGE * PAGE, "the first step after pressure is half as large");
	for (unsigned i = 0; i < 5000; i++)
		squeeze_step(&squeeze, &rule, &bad);
	quiet = quiet_until_step(&squeeze, &bytes);
	ok(quiet > 50 && quiet <= 101, "hours of pressure stop the steps for 100 quiet intervals at most (%u)", quiet);
	ok(bytes >= 128 << 10, "steps after hours of pressure are small, but not 0");
}

static void growing_working_set_is_left_alone(void)
{
	struct group group = {.working_set = 512 * MIB, .idle = 512 * MIB, .touched = 50, .fault_us = 50};
	struct squeeze squeeze;
	uint64_t taken = 0;

	squeeze_init(&squeeze);
	for (unsigned i = 0; i < 300; i++)
		step(&squeeze, &group, 0, UINT64_MAX);
	/* The programs begin to use all pages. */
	group.working_set += group.idle;
	group.hot_out += group.idle_out;
	group.idle = group.idle_out = 0;
	for (unsigned i = 0; i < 20; i++)
		taken += step(&squeeze, &group, 0, UINT64_MAX);
	ok(taken == 0, "squeeze reclaims nothing while the programs read their pages back");
	ok(size_of(&group) > 1020 * MIB, "the group has its pages back after 20 intervals");
}

static void floor_and_room_are_kept(void)
{
	struct group group = {.working_set = MIB, .idle = 1023 * MIB, .touched = 50, .fault_us = 50};
	struct squeeze squeeze;
	uint64_t taken = 0;

	squeeze_init(&squeeze);
	for (unsigned i = 0; i < 500; i++)
		step(&squeeze, &group, 600 * MIB + 1, UINT64_MAX);
	ok(size_of(&group) == 600 * MIB + PAGE, "the group shrinks to --min, and no page further (%llu)",
	   (unsigned long long)size_of(&group));
	for (uint64_t room = 20 * MIB, bytes; room && (bytes = step(&squeeze, &group, 0, room)); room -= bytes)
		taken += bytes;
	ok(taken == 20 * MIB, "steps fill the swap space, and end then");
	ok(step(&squeeze, &group, 0, PAGE - 1) == 0, "a step has whole pages");
}

/* Many groups, whose pages the kernel knows more or less well. */
static void mean_pressure_is_bounded_in_random_groups(void)
{
	uint64_t worst = 0, chance = 1;
	unsigned shrunk = 0;

	for (unsigned world = 0; world < 300; world++) {
		struct group group = {
		    .working_set = (64 + draw(&chance) % 8192) * MIB,
		    .idle = draw(&chance) % 8192 * MIB,
		    .touched = 2 + (unsigned)(draw(&chance) % 99),
		    .fault_us = 10 + (unsigned)(draw(&chance) % 200),
		    .misses = (unsigned)(draw(&chance) % 20),
		};
		const uint64_t began = size_of(&group);
		struct squeeze squeeze;

		squeeze_init(&squeeze);
		for (unsigned i = 0; i < 3000; i++)
			step(&squeeze, &group, 0, UINT64_MAX);
		worst = mean(&group) > worst ? mean(&group) : worst;
		shrunk += size_of(&group) < began;
	}
	ok(worst <= TARGET * 11 / 10, "the mean pressure of no group exceeds the target by more than a tenth (%llu)",
	   (unsigned long long)worst);
	ok(shrunk == 300, "every group has shrunk (%u)", shrunk);
}

int main(void)
{
	group_shrinks_to_its_working_set();
	step_depends_on_pressure();
	waiting_beyond_the_target_is_paid_first();
	growing_working_set_is_left_alone();
	floor_and_room_are_kept();
	mean_pressure_is_bounded_in_random_groups();
	return tap_done();
}
