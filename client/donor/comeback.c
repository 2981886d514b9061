/* comeback: see comeback.h. */
#include "client/donor/comeback.h"

#include "common/least.h"

#include <assert.h>
#include <errno.h>

static const uint8_t transitions[] = {
    [COMEBACK_UP] = 1 << COMEBACK_AWAY | 1 << COMEBACK_LOST,
    [COMEBACK_AWAY] = 1 << COMEBACK_TRYING | 1 << COMEBACK_LOST,
    [COMEBACK_TRYING] = 1 << COMEBACK_UP | 1 << COMEBACK_CLAIMING | 1 << COMEBACK_AWAY | 1 << COMEBACK_LOST,
    [COMEBACK_CLAIMING] = 1 << COMEBACK_UP | 1 << COMEBACK_AWAY | 1 << COMEBACK_LOST,
    [COMEBACK_LOST] = 1 << COMEBACK_AWAY,
};

static void comeback_move(struct comeback *comeback, enum comeback_state state)
{
	assert(transitions[comeback->state] >> state & 1);
	comeback->state = state;
}

void comeback_init(struct comeback *comeback, const struct comeback_config *config, uint64_t incarnation)
{
	*comeback = (struct comeback){
	    .patience_ns = config->patience_ns, .last_ns = config->last_ns, .incarnation = incarnation, .met = true};
	random_seed(&comeback->random, config->seed);
}

void comeback_adopt(struct comeback *comeback, const struct comeback_config *config, uint64_t incarnation, uint64_t now)
{
	comeback_init(comeback, config, incarnation);
	comeback->state = COMEBACK_AWAY;
	comeback->since = comeback->first = comeback->due = now;
	comeback->end_at = now + config->patience_ns;
	comeback->status = -ETIMEDOUT;
	comeback->unknown = true;
	comeback->met = false;
}

/* Makes the donor AWAY. It holds nothing of ours, and is tried every second. */
static void anew_begin(struct comeback *comeback, uint64_t now)
{
	comeback->state = COMEBACK_AWAY;
	comeback->anew = true;
	comeback->unknown = false;
	comeback->end_at = UINT64_MAX;
	comeback->due = now + COMEBACK_ANEW_NS;
}

void comeback_absent(struct comeback *comeback, const struct comeback_config *config, int status, uint64_t now)
{
	comeback_init(comeback, config, 0);
	anew_begin(comeback, now);
	comeback->since = now;
	comeback->met = false;
	comeback->status = status;
}

void comeback_let_go(struct comeback *comeback)
{
	comeback->state = COMEBACK_LOST;
	comeback->incarnation = 0;
	comeback->anew = false;
}

static enum comeback_step comeback_lose(struct comeback *comeback, enum comeback_end end, int status)
{
	comeback->end = end;
	comeback->status = status;
	comeback_move(comeback, COMEBACK_LOST);
	return COMEBACK_BURY;
}

static bool is_up(const struct comeback *comeback)
{
	return comeback->state == COMEBACK_UP;
}

bool comeback_is_waited_for(const struct comeback *comeback)
{
	return comeback->state != COMEBACK_UP && comeback->state != COMEBACK_LOST;
}

/* Returns true if @status means that the donor answers, but refuses us. */
static bool status_is_final(int status)
{
	return status == -EKEYREJECTED || status == -EPROTONOSUPPORT || status == -EPROTO || status == -EACCES ||
	       status == -EINVAL;
}

/* Records since when the donor's machine has refused each connection. */
static void refusal_note(struct comeback *comeback, int status, uint64_t now)
{
	if (status == -ECONNREFUSED && !comeback->refused)
		comeback->refused_since = now;
	comeback->refused = status == -ECONNREFUSED;
}

/* If the donor's machine refuses connections after a reset, returns when the donor's program has ended for certain. A
   donor that is being upgraded refuses connections as well, but only for a moment. */
static uint64_t program_ends_at(const struct comeback *comeback)
{
	return comeback->reset && comeback->refused ? comeback->refused_since + COMEBACK_REFUSED_NS : UINT64_MAX;
}

/* @status is the reason why a connection ended or could not be made. Returns true if this reason may soon pass. A
   lack on this machine (memory, descriptors, a device that is being reset) may pass: for such a reason, pages that
   are safe on the donor must not be given up. Any reason may pass if the donor was UP, because the next handshake and
   the claims will show if the donor is at fault. */
static bool status_may_pass(const struct comeback *comeback, int status, uint64_t now)
{
	if (is_up(comeback))
		return true;
	return status == -ECONNREFUSED ? now < program_ends_at(comeback) : !status_is_final(status);
}

/* Returns true if an attacker on the network may have made up the refusal. So if a donor has welcomed us before,
   its refusal counts only when patience is over. But a refusal while the donor is UP, or a welcome of no use
   (-EINVAL), carries a MAC, so it counts at once. */
static bool refusal_may_pass(const struct comeback *comeback, int status)
{
	return comeback->met && !is_up(comeback) && status != -EINVAL;
}

bool comeback_is_out_of_reach(int status)
{
	return status == -ETIMEDOUT || status == -ECONNRESET || status == -EPIPE || status == -ECONNREFUSED ||
	       status == -ERESTART || status == -EHOSTUNREACH || status == -ENETUNREACH;
}

/* Starts the pause before the next try. The pause doubles with each try, up to the longest pause. A random part of
   it, at most half, is left out. If the donor's program may have ended, the next try comes in time to tell. */
static void pause_begin(struct comeback *comeback, uint64_t now)
{
	uint64_t pause = COMEBACK_PAUSE_MIN_NS, ends_at = program_ends_at(comeback);

	for (unsigned i = 0; i < comeback->tries && pause < COMEBACK_PAUSE_MAX_NS; i++)
		pause *= 2;
	if (pause > COMEBACK_PAUSE_MAX_NS)
		pause = COMEBACK_PAUSE_MAX_NS;
	comeback->due = now + pause / 2 + random_below(&comeback->random, pause / 2 + 1);
	if (ends_at > now && comeback->due > ends_at)
		comeback->due = ends_at;
}

enum comeback_step comeback_broke(struct comeback *comeback, int status, bool final, uint64_t now)
{
	enum comeback_state state = comeback->state;

	assert(status < 0);
	if (state == COMEBACK_AWAY || state == COMEBACK_LOST)
		return COMEBACK_NOTHING;
	if (comeback->anew && state != COMEBACK_UP) {
		comeback_move(comeback, final || status_is_final(status) ? COMEBACK_LOST : COMEBACK_AWAY);
		comeback->due = now + COMEBACK_ANEW_NS;
		return COMEBACK_PAUSE;
	}
	if (!final && !status_is_final(status))
		refusal_note(comeback, status, now);
	if ((final || status_is_final(status)) && refusal_may_pass(comeback, status))
		comeback->status = status;
	else if (final || !status_may_pass(comeback, status, now))
		return comeback_lose(comeback, COMEBACK_REFUSED, status);
	if (state == COMEBACK_UP) {
		comeback->since = comeback->first = now;
		comeback->end_at = now + comeback->patience_ns;
		comeback->again = 0;
		comeback->needed = false;
		/* If this machine is at fault, the pauses keep growing, although the donor was UP in between. */
		if (comeback_is_out_of_reach(status))
			comeback->tries = 0;
		comeback->unknown = comeback->refused = false;
		comeback->reset = status == -ECONNRESET || status == -EPIPE || status == -ECONNREFUSED ||
				  status == -EACCES; /* -EACCES: an ending program loses memory before connections */
		comeback->status = status;
	} else if (comeback->unknown) {
		comeback->status = status;
		comeback->unknown = false;
	}
	comeback_move(comeback, COMEBACK_AWAY);
	pause_begin(comeback, now);
	return state == COMEBACK_UP ? COMEBACK_LEAVE : COMEBACK_PAUSE;
}

enum comeback_step comeback_welcomed(struct comeback *comeback, uint64_t incarnation, uint64_t slabs, uint64_t held)
{
	bool same = incarnation == comeback->incarnation;

	assert(comeback->state == COMEBACK_TRYING);
	/* A restarted donor has lost nothing of ours if we held no slab on it. */
	if (held && !same)
		return comeback_lose(comeback, COMEBACK_RESTARTED, -ECONNRESET);
	/* If the donor holds some slabs, the claims show which. */
	if (held && !slabs)
		return comeback_lose(comeback, COMEBACK_FORGOTTEN, -ECONNRESET);
	comeback->incarnation = incarnation;
	comeback->met = true;
	comeback->refused = false;
	comeback_move(comeback, slabs ? COMEBACK_CLAIMING : COMEBACK_UP);
	return slabs ? COMEBACK_CLAIM : COMEBACK_RETURN;
}

enum comeback_step comeback_claimed(struct comeback *comeback)
{
	assert(comeback->state == COMEBACK_CLAIMING);
	comeback_move(comeback, COMEBACK_UP);
	return COMEBACK_RETURN;
}

enum comeback_step comeback_denied(struct comeback *comeback)
{
	assert(comeback->state == COMEBACK_CLAIMING);
	return comeback_lose(comeback, COMEBACK_FORGOTTEN, -ECONNRESET);
}

void comeback_waits(struct comeback *comeback, uint64_t since)
{
	if (comeback->anew)
		return; /* no request waits for a donor that holds nothing */
	if (since < comeback->first)
		comeback->first = since;
	if (comeback->needed)
		return; /* the steps of comeback_needed() count */
	if (since < comeback->again)
		since = comeback->again;
	comeback->end_at = least(since + comeback->patience_ns, comeback->end_at);
}

bool comeback_is_overdue(const struct comeback *comeback, uint64_t now)
{
	return comeback_is_waited_for(comeback) && now >= comeback->end_at;
}

static uint64_t last_of(const struct comeback *comeback)
{
	return comeback->first + comeback->last_ns;
}

bool comeback_needed(struct comeback *comeback, uint64_t now)
{
	const bool before = comeback->needed;

	if (now >= last_of(comeback))
		return false;
	comeback->needed = true;
	comeback->end_at = least(now + COMEBACK_NEEDED_NS, last_of(comeback));
	return !before;
}

void comeback_not_needed(struct comeback *comeback, uint64_t now)
{
	if (!comeback->needed)
		return;
	comeback->needed = false;
	comeback->again = now;
	comeback->end_at = least(now + comeback->patience_ns, last_of(comeback));
}

bool comeback_anew(struct comeback *comeback, uint64_t now)
{
	if (status_is_final(comeback->status))
		return false;
	assert(comeback->state == COMEBACK_LOST);
	anew_begin(comeback, now);
	return true;
}

enum comeback_step comeback_tick(struct comeback *comeback, uint64_t now)
{
	if (is_up(comeback) || comeback->state == COMEBACK_LOST)
		return COMEBACK_NOTHING;
	if (now >= comeback->end_at)
		return comeback_lose(comeback, COMEBACK_TOO_LATE, comeback->status);
	if (comeback->state != COMEBACK_AWAY || now < comeback->due)
		return COMEBACK_NOTHING;
	comeback->tries++;
	comeback_move(comeback, COMEBACK_TRYING);
	return COMEBACK_TRY;
}

uint64_t comeback_due(const struct comeback *comeback)
{
	if (is_up(comeback) || comeback->state == COMEBACK_LOST)
		return UINT64_MAX;
	return comeback->state == COMEBACK_AWAY && comeback->due < comeback->end_at ? comeback->due : comeback->end_at;
}
