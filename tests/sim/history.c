/* history: see history.h. */
#include "tests/sim/history.h"

#include "common/random.h"
#include "tests/sim/disk.h"
#include "tests/sim/net.h"

#include <stdio.h>
#include <string.h>

#define PAGE ((uint64_t)4096)
/* Interval of the checks of donors and programs. */
#define LOOK_NS (50 * MS)
#define SCRUB_RATE (UINT64_C(1) << 36) /* a pass of the scrub takes at least 16 ms */

/* --- The world of a seed ---------------------------------------------------------------------------------------- */

static uint64_t between(uint64_t least, uint64_t most)
{
	return least + world_below(most - least + 1);
}

static void draw_habits(struct history *history)
{
	struct net_habits habits = {.least_ns = between(2, 50) * US};

	habits.most_ns = habits.least_ns + (world_chance(3) ? between(1, 10) * MS : between(20, 800) * US);
	habits.linger_in = world_chance(3) ? 0 : 3;
	habits.silent_in = world_chance(4) ? 8 : 0;
	habits.takes = history->every_ns[FAULT_REVOKE] || (history->loses && history->every_ns[FAULT_DRAIN]);
	net_open(&habits);
	history->habits = (struct task_habits){.soon_ns = between(1, 60) * US,
					       .late_in = world_chance(2) ? 0 : (unsigned)between(20, 400),
					       .late_ns = between(1, 40) * MS,
					       .pause_in = world_chance(2) ? 0 : (unsigned)between(2, 30)};
	if (history->loses && world_chance(3))
		history->habits.late_ns *= 10;
}

static void draw_faults(struct history *history)
{
	/* Faults that may lose or damage pages. */
	static const bool hard[FAULTS] = {[FAULT_CORRUPT] = true};

	for (unsigned kind = 0; kind < FAULTS_DRAWN; kind++)
		if (world_chance(3) && (history->loses || !hard[kind]))
			history->every_ns[kind] = between(50, 1500) * MS;
	if (history->victims)
		history->every_ns[world_chance(2) ? FAULT_CUT_DONOR : FAULT_STALL] = between(50, 500) * MS;
	if (history->every_ns[FAULT_CRASH])
		history->every_ns[FAULT_CRASH] += SECOND;
	if (history->every_ns[FAULT_STOP])
		history->every_ns[FAULT_STOP] += SECOND;
	if (history->every_ns[FAULT_KILL])
		history->every_ns[FAULT_KILL] += SECOND / 2;
	history->outage_ns = history->timeout_ns / 4 + world_below(2 * history->timeout_ns);
}

unsigned history_mates(const struct history *history, unsigned donor)
{
	unsigned mates = 1u << donor;

	for (unsigned i = 0; i < history->donor_count; i++)
		if (history->failure_domains[donor] && history->failure_domains[i] == history->failure_domains[donor])
			mates |= 1u << i;
	return mates;
}

/* Draws donors that take slabs back. With a deadline this may lose pages. */
static void draw_shrinking(struct history *history)
{
	struct random_state dice;

	random_seed(&dice, history->seed ^ UINT64_C(0x736872696e6b));
	if (history->loses && random_below(&dice, 2))
		history->every_ns[FAULT_REVOKE] = (50 + random_below(&dice, 1000)) * MS;
	if (random_below(&dice, 2))
		history->every_ns[FAULT_DRAIN] = (50 + random_below(&dice, 1500)) * MS;
	history->revoke_ns = (50 + random_below(&dice, 1500)) * MS;
}

/*
 * Draws sleeps of processes. There are none if donors may be lost, because a sleep could then lose pages by chance.
 * Half of the histories with a backup have none, because with sleeps they find the bug planted/leave_unsettled even
 * more rarely.
 */
static void draw_sleep(struct history *history)
{
	struct random_state dice;

	random_seed(&dice, history->seed ^ UINT64_C(0x736c656570));
	if (!history->victims && history->seed % 10 != 7 && random_below(&dice, 2))
		history->every_ns[FAULT_SLEEP] = (500 + random_below(&dice, 2000)) * MS;
}

/* Draws programs that rest after faults. Their connections break often. */
static void draw_rests(struct history *history)
{
	struct random_state dice;

	random_seed(&dice, history->seed ^ UINT64_C(0x7265737473));
	history->rests = history->replicas > 1 && random_below(&dice, 4) == 0;
	if (history->rests)
		history->every_ns[FAULT_RESET] = (50 + random_below(&dice, 100)) * MS;
}

static void draw_upgrades(struct history *history)
{
	struct random_state dice;

	random_seed(&dice, history->seed ^ UINT64_C(0x75706772616465));
	if (random_below(&dice, 3) == 0)
		history->every_ns[FAULT_UPGRADE] = (100 + random_below(&dice, 2000)) * MS;
}

/* Draws at least as many failure domains as replicas. Has its own generator, so that other histories stay the same. */
static void draw_domains(struct history *history)
{
	static const char *const names[DONORS_MAX] = {"rack0", "rack1", "rack2", "rack3", NULL};
	unsigned count, victims = history->victims;
	struct random_state dice;

	random_seed(&dice, history->seed ^ UINT64_C(0x646f6d61696e73));
	if (history->replicas < 2 || history->donor_count == history->replicas || random_below(&dice, 2))
		return;
	history->placed = true;
	count = history->replicas + (unsigned)random_below(&dice, history->donor_count - history->replicas);
	/* Each domain gets a donor. Other donors get random domains. */
	for (unsigned i = 0; i < history->donor_count; i++)
		history->failure_domains[i] = names[i < count ? i : random_below(&dice, count)];
	for (unsigned i = history->donor_count - 1; i; i--) {
		unsigned j = (unsigned)random_below(&dice, i + 1);
		const char *name = history->failure_domains[i];

		history->failure_domains[i] = history->failure_domains[j];
		history->failure_domains[j] = name;
	}
	/* If a donor may be lost, all donors of its domain may. */
	for (unsigned i = 0; i < history->donor_count; i++)
		if (victims >> i & 1)
			history->victims |= history_mates(history, i);
}

static void draw_donors(struct history *history, uint64_t slab_bytes, unsigned chunks)
{
	/*
	 * Donors have enough slabs for all programs, even if these start anew many times in the grace time. In a
	 * tight history they have hardly enough.
	 */
	bool tight = history->loses && world_chance(4);
	unsigned slabs = history->program_count * 6 * chunks + 16;

	if (tight)
		slabs = 1 + chunks * history->replicas / history->donor_count;
	for (unsigned i = 0; i < history->donor_count; i++) {
		struct donor_config config = {.failure_domain = history->failure_domains[i],
					      .limits = {.slabs = slabs,
							 .slab_bytes = slab_bytes,
							 .sessions = 8,
							 .session_slabs = tight && world_chance(2) ? 1 + slabs / 2 : 0,
							 .session_conns = 16,
							 .grace_ns = 70 * SECOND,
							 .heartbeat_ns = history->heartbeat_ns,
							 .revoke_ns = history->revoke_ns},
					      .slabs = {.slabs = slabs, .bytes = slab_bytes},
					      .fabric = FABRIC_CONFIG_DEFAULT};

		donors_open(&history->donors[i], i, &config);
		machine_at(i)->prepare_ns = world_chance(2) ? between(1, history->loses ? 200 : 10) * MS : 50 * US;
		if (history->loses && world_chance(8))
			machine_at(i)->prepare_ns = 2 * history->timeout_ns;
		machine_at(i)->device = world_chance(2);
	}
}

static void draw_program(struct history *history, unsigned index, uint64_t chunk_pages, unsigned chunks)
{
	static const char *uris[DONORS_MAX];
	struct program_config config = {.chunk_pages = chunk_pages,
					.workers = (unsigned)between(1, PROGRAM_WORKERS_MAX),
					.depth = (unsigned)between(1, PROGRAM_DEPTH_MAX),
					.run = (unsigned)between(1, PROGRAM_RUN_MAX),
					.think_ns = between(100, 4000) * US,
					.writes = (unsigned)between(3, 7),
					.keeps_state = world_chance(3)};

	for (unsigned i = 0; i < history->donor_count; i++)
		uris[i] = history->donors[i].uri;
	config.far = (struct far_config){.donors = uris,
					 .donor_count = history->donor_count,
					 .pages = chunks * chunk_pages - world_below(chunk_pages),
					 .replicas = history->replicas,
					 .timeout_ms = (unsigned)(history->timeout_ns / MS),
					 .fabric = {.depth = (unsigned)between(2, 32),
						    .connect_ms = (unsigned)between(300, 600),
						    .io_ms = (unsigned)between(200, 500)}};
	if (history->loses)
		config.excuses = (struct program_excuses){.lost = true, .full = true, .late = true};
	/* The seed decides these options without the generator, so that other histories stay the same. */
	config.far.backup = history->seed % 5 == 2 ? disk_path(index) : NULL;
	config.far.scrub_rate = history->seed % 3 == 0 ? SCRUB_RATE : 0;
	config.far.encrypt = history->seed % 4 == 1;
	config.far.connect_late = history->seed % 7 == 3;
	config.far.last_timeout_ms = (unsigned)(history->last_timeout_ns / MS);
	config.lent = donors_lend_to;
	config.rests = history->rests;
	config.excuses.donors = history->loses || history->victims || history->all_away;
	config.excuses.damaged = history->every_ns[FAULT_CORRUPT];
	/* A write of a new chunk times out if the only donor that could lend a slab stays out of reach. */
	config.excuses.late |= history->victims != 0;
	config.excuses.full |= history->victims || history->every_ns[FAULT_MEMORY] || history->every_ns[FAULT_DRAIN];
	config.bound_ns = 3 * history->last_timeout_ns + 4 * SECOND;
	program_open(&history->programs[index], index, PROGRAM_HOST + index, &config);
}

static void history_draw(struct history *history, uint64_t seed)
{
	uint64_t chunk_pages = UINT64_C(2) << world_below(4);
	unsigned chunks = (unsigned)between(2, 10);

	*history = (struct history){.seed = seed};
	machines_open();
	history->replicas = world_chance(2) ? 1 : (unsigned)between(2, FAR_REPLICAS_MAX);
	history->donor_count = (unsigned)between(history->replicas, DONORS_MAX);
	history->program_count = 1 + world_chance(3);
	history->timeout_ns = between(1000, 2000) * MS;
	history->last_timeout_ns = (seed % 3 == 1 ? 3 : 1) * history->timeout_ns;
	history->heartbeat_ns = between(60, 200) * MS;
	history->work_ns = between(1, 6) * SECOND;
	history->loses = world_below(3) > 0;
	for (unsigned i = 1; i < history->replicas && !history->loses; i++)
		history->victims |= 1u << world_below(history->donor_count);
	history->all_away = seed % 12 == 7 && !history->loses;
	if (history->all_away)
		history->victims = 0;
	draw_domains(history);
	draw_faults(history);
	draw_shrinking(history);
	draw_sleep(history);
	draw_rests(history);
	draw_upgrades(history);
	draw_habits(history);
	draw_donors(history, chunk_pages * PAGE, chunks);
	for (unsigned i = 0; i < history->program_count; i++)
		draw_program(history, i, chunk_pages, chunks);
	for (unsigned i = 0; i < history->donor_count && history->placed; i++)
		world_tell("donor%u is in %s", i,
			   history->failure_domains[i] ? history->failure_domains[i] : "a domain of its own");
	world_tell("%u donors, %u programs, %u replicas, %u chunks of %u pages%s, victims %u", history->donor_count,
		   history->program_count, history->replicas, chunks, (unsigned)chunk_pages,
		   history->loses ? "" : ", nothing may be lost", history->victims);
}

/* --- The run ---------------------------------------------------------------------------------------------------- */

static void history_look(struct history *history)
{
	for (unsigned i = 0; i < history->donor_count; i++)
		donor_check(&history->donors[i]);
	for (unsigned i = 0; i < history->program_count; i++) {
		struct program *program = &history->programs[i];

		program_check(program);
		program_check_apart(program, history->failure_domains);
		/* A program that is down with an open_status could not open or adopt its store. */
		if (program->phase != PROGRAM_DOWN || !program->open_status || program->process->tasks)
			continue;
		/* A new store needs all donors. A store that is adopted needs some. */
		if (program->starts == 1 || (!history->loses && program->config.keeps_state))
			world_fail("%s: cannot open its store: %s", program->process->name,
				   strerror(-program->open_status));
		program->open_status = 0;
		program_start(program, world_chance(2));
	}
}

/* Runs the history until @done is true. Returns false if this takes longer than @within. */
static bool run_until(struct history *history, uint64_t within, bool (*done)(const struct history *))
{
	uint64_t until = world_now() + within;

	while (!world_wrong() && world_now() < until) {
		uint64_t look = world_now() + LOOK_NS;

		while (world_step(look < until ? look : until))
			;
		history_look(history);
		if (done && done(history))
			return true;
	}
	return false;
}

static bool all_work(const struct history *history)
{
	for (unsigned i = 0; i < history->program_count; i++)
		if (history->programs[i].phase != PROGRAM_WORKS)
			return false;
	return true;
}

static bool all_settled(const struct history *history)
{
	for (unsigned i = 0; i < history->program_count; i++)
		if (!program_is_settled(&history->programs[i]))
			return false;
	return true;
}

static bool all_closed(const struct history *history)
{
	for (unsigned i = 0; i < history->program_count; i++)
		if (history->programs[i].phase != PROGRAM_DOWN)
			return false;
	return true;
}

static bool all_given_back(const struct history *history)
{
	for (unsigned i = 0; i < history->donor_count; i++)
		if (!donor_is_empty(&history->donors[i]))
			return false;
	return true;
}

static bool all_gone(const struct history *history)
{
	(void)history;
	for (const struct process *process = process_last(); process; process = process->next)
		if (process->tasks)
			return false;
	return true;
}

static void history_close(struct history *history)
{
	uint64_t patience = 60 * SECOND;

	if (!run_until(history, patience, all_work) && !world_wrong())
		world_fail("a program does not come back");
	if (!run_until(history, patience, all_settled) && !world_wrong())
		world_fail("a chunk keeps one replica too many");
	for (unsigned i = 0; i < history->program_count; i++)
		program_end(&history->programs[i], world_chance(2) ? PROGRAM_CLOSE : PROGRAM_EMPTY);
	if (!run_until(history, patience, all_closed) && !world_wrong())
		world_fail("a program does not end");
	/* Slabs of clients that never came back are free after the grace time. */
	run_until(history, 80 * SECOND, all_given_back);
	for (unsigned i = 0; i < history->donor_count; i++)
		donor_check_empty(&history->donors[i]);
	for (unsigned i = 0; i < history->donor_count; i++)
		donor_stop(&history->donors[i]);
	if (!run_until(history, patience, all_gone) && !world_wrong())
		world_fail("a process does not end");
	for (const struct process *process = process_last(); process; process = process->next)
		process_check_gone(process);
	if (!world_wrong() && descriptors_open())
		world_fail("%u descriptors are left open", descriptors_open());
}

static void history_work(struct history *history)
{
	const struct task_habits prompt = {.soon_ns = history->habits.soon_ns, .pause_in = history->habits.pause_in};

	task_set_habits(&prompt);
	for (unsigned i = 0; i < history->donor_count; i++)
		donor_start(&history->donors[i]);
	run_until(history, SECOND, all_given_back);
	for (unsigned i = 0; i < history->program_count; i++)
		program_start(&history->programs[i], false);
	if (!run_until(history, 20 * SECOND, all_work) && !world_wrong())
		world_fail("a program does not begin");
	task_set_habits(&history->habits);
	faults_begin(history);
	run_until(history, history->work_ns, NULL);
	faults_mend(history);
}

void history_run(uint64_t seed, enum world_telling telling, struct history_result *ret_result)
{
	static struct history history;
	struct history_result result = {0};

	world_open(seed, telling);
	history_draw(&history, seed);
	history_work(&history);
	history_close(&history);
	if (world_wrong())
		snprintf(result.wrong, sizeof result.wrong, "%s", world_wrong());
	result.hash = world_hash();
	result.operations = net.operations;
	result.faults = faults_count();
	for (unsigned i = 0; i < history.donor_count; i++)
		result.warm += history.donors[i].warm;
	for (unsigned i = 0; i < history.program_count; i++) {
		result.good += history.programs[i].good;
		result.failed += history.programs[i].failed;
		result.adoptions += history.programs[i].adoptions;
		result.hedges += history.programs[i].hedges;
		result.rebuilt += history.programs[i].rebuilt;
		program_close(&history.programs[i]);
	}
	tasks_forget();
	descriptors_forget();
	world_close();
	*ret_result = result;
}
