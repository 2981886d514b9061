/* faults: draws the faults of a history and their times, and carries them out. See history.h. */
#include "tests/sim/history.h"
#include "tests/sim/net.h"

#include <string.h>

/* After an outage, a gentle history leaves a donor alone for this time. */
#define REST_NS (3 * SECOND / 2)
#define RESTART_NS (2 * SECOND)
/* Longest time that a program rests after a fault. */
#define PAUSE_NS (60 * MS)

static uint64_t happened;

uint64_t faults_count(void)
{
	return happened;
}

static struct donor_host *donor_pick(struct history *history)
{
	return &history->donors[world_below(history->donor_count)];
}

static struct program *program_pick(struct history *history)
{
	return &history->programs[world_below(history->program_count)];
}

/* Returns true if the donor may be away now. May change the @duration. */
static bool donor_may_go(struct history *history, const struct donor_host *donor, uint64_t *duration)
{
	unsigned index = (unsigned)(donor - history->donors);

	if (donor->down)
		return false;
	/* A donor that may be lost is sometimes away for about the time after which clients lose it. */
	if (history->victims >> index & 1 && world_chance(2))
		*duration = history->timeout_ns / 2 + world_below(2 * history->timeout_ns);
	if (history->loses || history->victims >> index & 1)
		return true;
	/* If some donors may be lost, no other donor may be away, because it may have the only copy of new pages. */
	if (history->victims)
		return false;
	/* A donor that is away for half of the time that clients wait for a last copy is back in time. */
	if (*duration > history->last_timeout_ns / 2)
		*duration = history->last_timeout_ns / 2;
	if (world_now() < history->rests_until[index])
		return false;
	history->rests_until[index] = world_now() + *duration + REST_NS;
	return true;
}

static bool donor_may_die(const struct history *history, const struct donor_host *donor)
{
	return !donor->down && (history->loses || history->victims >> (donor - history->donors) & 1);
}

static uint64_t outage(const struct history *history)
{
	if (history->all_away)
		return history->timeout_ns / 2 + world_below(history->timeout_ns);
	/* Most outages are short. */
	return world_chance(3) ? world_below(history->outage_ns) : world_below(history->outage_ns / 4 + 1);
}

/* --- Wires ------------------------------------------------------------------------------------------------------ */

static void fault_reset(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	const struct program *program = program_pick(history);
	struct wire *wire = net_pick(donor->host, program->host);
	uint64_t nothing = 0;

	/*
	 * A donor takes a reset for the end of the client's process, and keeps its slabs for two seconds. A client that
	 * is stopped does not come back in that time (docs/faults.md).
	 */
	if (program->process->stalled_until > world_now() && !history->loses)
		return;
	if (wire && donor_may_go(history, donor, &nothing)) {
		history->reset_at = world_now();
		net_reset(wire);
	}
}

static void fault_cut_wire(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	const struct program *program = program_pick(history);
	struct wire *wire = net_pick(donor->host, program->host);
	uint64_t duration = outage(history);
	unsigned ways = 1 + (unsigned)world_below(3);

	if (!wire || !donor_may_go(history, donor, &duration))
		return;
	world_tell("w%u: is cut for %llu ms, ways %u", wire->number, (unsigned long long)(duration / MS), ways);
	for (unsigned side = 0; side < 2; side++)
		if (ways >> side & 1)
			net_cut(wire, side, duration);
}

static void fault_cut_donor(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	const struct program *only = world_chance(2) ? program_pick(history) : NULL;
	uint64_t duration = outage(history);
	unsigned ways = 1 + (unsigned)world_below(3);

	if (!donor_may_go(history, donor, &duration))
		return;
	world_tell("%s: is cut off for %llu ms, ways %u", donor->process->name, (unsigned long long)(duration / MS),
		   ways);
	for (unsigned i = 0; i < history->program_count; i++) {
		const struct program *program = &history->programs[i];

		if (only && only != program)
			continue;
		if (ways & 1)
			machine_cut(program->host, donor->host, duration);
		if (ways & 2)
			machine_cut(donor->host, program->host, duration);
	}
}

/* --- Donors ----------------------------------------------------------------------------------------------------- */

static void fault_stall(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	uint64_t duration = outage(history);

	if (!donor_may_go(history, donor, &duration))
		return;
	world_tell("%s: stands still for %llu ms", donor->process->name, (unsigned long long)(duration / MS));
	process_stall(donor->process, duration);
}

static void donor_restart(void *what, uint64_t token)
{
	struct donor_host *donor = what;

	/* A donor that was told to stop must end first. */
	if (!donor->process->dead && donor->process->tasks)
		world_at(world_now() + 10 * MS, donor_restart, donor, token);
	else if (donor->down)
		donor_start(donor);
}

static void fault_crash(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	unsigned dies = 1u << (donor - history->donors);

	if (history->placed && world_chance(2))
		dies = history_mates(history, (unsigned)(donor - history->donors));
	for (unsigned i = 0; i < history->donor_count; i++) {
		donor = &history->donors[i];
		if (!(dies >> i & 1) || !donor_may_die(history, donor))
			continue;
		donor_crash(donor, world_chance(2));
		world_at(world_now() + world_below(RESTART_NS), donor_restart, donor, 0);
	}
}

static void fault_stop(struct history *history)
{
	struct donor_host *donor = donor_pick(history);

	if (!donor_may_die(history, donor) || !donor->server->donor)
		return;
	donor_stop(donor);
	world_at(world_now() + world_below(RESTART_NS), donor_restart, donor, 0);
}

static void fault_upgrade(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	uint64_t duration = SECOND;

	if (donor_may_go(history, donor, &duration))
		donor_upgrade(donor);
}

static void fault_corrupt(struct history *history)
{
	struct donor_host *donor = donor_pick(history);

	if (!donor->down)
		net_corrupt(donor->process);
}

static void memory_back(void *what, uint64_t token)
{
	(void)token;
	((struct machine *)what)->short_of_memory = false;
}

/*
 * Returns true if the donor of the machine may grant no slabs for a while. A chunk that is made while a donor is
 * missing starts with as many replicas as it can get (leases.h). If several donors may be lost and no other donor
 * had memory, the chunk could get a single replica, on the donor that is lost next.
 */
static bool donor_may_grant_nothing(const struct history *history, unsigned host)
{
	unsigned victims = history->victims;

	return !(victims & (victims - 1)) || victims >> host & 1;
}

static void fault_memory(struct history *history)
{
	unsigned host = donor_pick(history)->host;
	struct machine *machine = machine_at(host);

	if (!donor_may_grant_nothing(history, host))
		return;
	machine->short_of_memory = true;
	world_at(world_now() + outage(history), memory_back, machine, 0);
}

static void spares_all(void *what, uint64_t token)
{
	const struct donor_host *donor = what;

	(void)token;
	world_tell("donor%u: may lend all", donor->host);
	machine_spares_all(donor->host);
	donor_hint(donor);
}

/* The donor takes slabs back that clients do not release by the deadline. */
static void fault_revoke(struct history *history)
{
	struct donor_host *donor = donor_pick(history);
	struct machine *machine = machine_at(donor->host);

	machine->wants.slabs = (uint32_t)world_below(donor_slabs_used(donor) + 1);
	world_tell("donor%u: may lend %u slabs", donor->host, machine->wants.slabs);
	donor_hint(donor);
	world_at(world_now() + outage(history), spares_all, donor, 0);
}

static void fault_drain(struct history *history)
{
	struct donor_host *donor = donor_pick(history);

	if (!donor_may_grant_nothing(history, donor->host))
		return;
	machine_at(donor->host)->wants.drain = history->loses && world_chance(3) ? WIRE_DRAIN_FORCE : WIRE_DRAIN_WAIT;
	world_tell("donor%u: is drained", donor->host);
	donor_hint(donor);
	world_at(world_now() + 2 * outage(history), spares_all, donor, 0);
}

/* The donor answers later than others, but in time. */
static void fault_slow(struct history *history)
{
	struct machine *machine = machine_at(donor_pick(history)->host);

	machine->slow_ns = MS / 2 + world_below(30 * MS);
	machine->slow_until = world_now() + outage(history);
}

/* --- Programs --------------------------------------------------------------------------------------------------- */

static void fault_pause(struct history *history)
{
	struct program *program = program_pick(history);
	uint64_t duration = outage(history);

	if (program->phase != PROGRAM_WORKS)
		return;
	/* A stopped client reaches no donor, so every donor must be allowed to be away. */
	for (unsigned i = 0; i < history->donor_count; i++)
		if (!donor_may_go(history, &history->donors[i], &duration) && !history->loses)
			return;
	world_tell("%s: stands still for %llu ms", program->process->name, (unsigned long long)(duration / MS));
	process_stall(program->process, duration);
}

/*
 * A sleep must not make an earlier outage longer, and must not lose pages. Neither a client nor a donor counts the time
 * in which it sleeps. A donor that does not sleep keeps the slabs of a silent client for longer than any sleep.
 */
static void fall_asleep(void *what, uint64_t token)
{
	struct history *history = what;
	const struct program *only = world_chance(2) ? program_pick(history) : NULL;
	uint64_t duration = world_below(2 * history->timeout_ns);

	(void)token;
	if (history->over)
		return;
	/* After a reset, donors keep the slabs for two seconds only, as in fault_reset(). */
	if (history->reset_at && world_now() < history->reset_at + SECOND && !history->loses)
		return;
	/* A program that opens its store needs donors that answer. */
	for (unsigned i = 0; i < history->program_count; i++)
		if (history->programs[i].phase != PROGRAM_WORKS)
			return;
	world_tell("%s stands still for %llu ms", only ? only->process->name : "everybody",
		   (unsigned long long)(duration / MS));
	if (history->asleep_until < world_now() + duration)
		history->asleep_until = world_now() + duration;
	for (unsigned i = 0; i < history->program_count; i++) {
		const struct program *program = &history->programs[i];

		if (!only || only == program)
			process_stall(program->process, duration);
	}
	for (unsigned i = 0; i < history->donor_count && !only; i++)
		if (!history->donors[i].down)
			process_stall(history->donors[i].process, duration);
}

/* Makes processes sleep. Usually the sleep begins while a donor is cut off, so that clients have just missed it. */
static void fault_sleep(struct history *history)
{
	const struct donor_host *donor = donor_pick(history);
	uint64_t duration = history->timeout_ns / 2;

	if (world_chance(4) || !donor_may_go(history, donor, &duration))
		duration = 0;
	if (duration)
		world_tell("%s: is cut off for %llu ms", donor->process->name, (unsigned long long)(duration / MS));
	for (unsigned i = 0; i < history->program_count; i++) {
		machine_cut(history->programs[i].host, donor->host, duration);
		machine_cut(donor->host, history->programs[i].host, duration);
	}
	world_at(world_now() + duration / 2 + world_below(duration / 2), fall_asleep, history, 0);
}

static void program_restart(void *what, uint64_t token)
{
	struct program *program = what;

	if (program->phase == PROGRAM_DOWN)
		program_start(program, token);
	else if (program->phase != PROGRAM_OPENS) /* the process that hands over has not ended yet */
		world_at(world_now() + 10 * MS, program_restart, program, token);
}

static void fault_kill(struct history *history)
{
	struct program *program = program_pick(history);

	/* The next process would find donors away, because it does not sleep as long as they do. */
	if (program->phase != PROGRAM_WORKS || history->victims || world_now() < history->asleep_until)
		return;
	program_kill(program);
	world_at(world_now() + world_below(history->timeout_ns), program_restart, program, 0);
}

static void fault_hand_over(struct history *history)
{
	struct program *program = program_pick(history);

	if (program->phase != PROGRAM_WORKS || !program->config.keeps_state || history->victims ||
	    world_now() < history->asleep_until)
		return;
	program_end(program, PROGRAM_LEAVE);
	world_at(world_now() + world_below(SECOND), program_restart, program, 0);
}

static void fault_new_habits(struct history *history)
{
	struct task_habits habits = history->habits;

	habits.late_in = habits.late_in ? 1 + (unsigned)world_below(2ull * habits.late_in) : 0;
	task_set_habits(&habits);
}

/* --- The schedule ----------------------------------------------------------------------------------------------- */

static void (*const faults[FAULTS])(struct history *) = {
    [FAULT_RESET] = fault_reset,     [FAULT_CUT_WIRE] = fault_cut_wire,   [FAULT_CUT_DONOR] = fault_cut_donor,
    [FAULT_STALL] = fault_stall,     [FAULT_CRASH] = fault_crash,         [FAULT_STOP] = fault_stop,
    [FAULT_CORRUPT] = fault_corrupt, [FAULT_MEMORY] = fault_memory,       [FAULT_PAUSE] = fault_pause,
    [FAULT_KILL] = fault_kill,       [FAULT_HAND_OVER] = fault_hand_over, [FAULT_NEW_HABITS] = fault_new_habits,
    [FAULT_SLOW] = fault_slow,       [FAULT_REVOKE] = fault_revoke,       [FAULT_DRAIN] = fault_drain,
    [FAULT_SLEEP] = fault_sleep,     [FAULT_UPGRADE] = fault_upgrade,
};

/*
 * While a program rests, a donor that was away comes back before a write detaches its replica. If this replica has
 * missed a write before, the next reads find wrong contents.
 */
static void programs_rest(struct history *history)
{
	for (unsigned i = 0; i < history->program_count; i++)
		if (history->programs[i].config.rests)
			history->programs[i].rests_until = world_now() + world_below(PAUSE_NS);
}

static void fault_happen(void *what, uint64_t kind)
{
	struct history *history = what;

	if (history->over)
		return;
	happened++;
	faults[kind](history);
	programs_rest(history);
	world_at(world_now() + 1 + world_below(2 * history->every_ns[kind]), fault_happen, history, kind);
}

void faults_begin(struct history *history)
{
	happened = 0;
	for (unsigned kind = 0; kind < FAULTS; kind++)
		if (history->every_ns[kind])
			world_at(world_now() + world_below(2 * history->every_ns[kind]), fault_happen, history, kind);
}

void faults_mend(struct history *history)
{
	world_tell("all is mended");
	history->over = true;
	for (unsigned i = 0; i < history->donor_count; i++)
		spares_all(&history->donors[i], 0);
	for (unsigned i = 0; i < MACHINES_MAX; i++) {
		memset(machine_at(i)->cut_until, 0, sizeof machine_at(i)->cut_until);
		machine_at(i)->short_of_memory = false;
		machine_at(i)->prepare_ns = 0;
		machine_at(i)->slow_until = 0;
	}
	task_set_habits(&(struct task_habits){.soon_ns = history->habits.soon_ns});
	/* Donors and programs that are down come back by themselves. Stalls and cuts of wires end by themselves. */
}
