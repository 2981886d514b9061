/*
 * comeback: whether a donor can be reached, and for how long one that cannot is waited for, as a state machine without
 * I/O or clock.
 *
 *     UP --broke--> AWAY --backoff over--> TRYING --welcomed, holds nothing--> UP
 *                    ^                       |  welcomed --> CLAIMING --all claimed--> UP
 *                    +---- it failed --------+------------------+
 *     any of them --patience over, refused for good, or not the same donor any more--> LOST --anew--> AWAY
 *
 * Theory of operation. The caller (client/peers.c) tells what happens to the donor's connections; each event is
 * answered with at most one thing to do. A connection that breaks, for whatever reason, makes the donor AWAY: all its
 * connections are ended, and after a moment a session is tried again, the pauses doubling up to a second, each
 * shortened by chance so that many clients do not come at once. What is refused then, and is still when patience is
 * over, is for good; of a donor that this process has not met yet, at once. What the donor
 * held is still there if it is the same start of its program (the incarnation) and it holds no fewer slabs than the
 * client knows of; then those are claimed.
 *
 * Patience. It counts from when the donor went out of reach; or from when a request began to wait for it that is still
 * not answered, for a donor that comes and goes must not hold one for ever. A donor whose connection was reset, not
 * silent, and whose machine then refuses the next one, has no program any more, and the memory went with it: LOST at
 * once, so that a job does not wait for what cannot come. After silence a refusal may be a machine that is starting up:
 * it is waited for, and then LOST because it has started anew; a name or a route that is missing may come back
 * likewise.
 *
 * Anew. A lost donor can be used again, as one that holds nothing: comeback_anew(). It is tried every
 * so often, for as long as it takes; a try that fails is nothing new, and one that is refused for good the last.
 *
 * Threads: none of its own.
 */
#ifndef CLIENT_COMEBACK_H
#define CLIENT_COMEBACK_H

#include "common/random.h"

#include <stdbool.h>
#include <stdint.h>

#define COMEBACK_PAUSE_MIN_NS UINT64_C(50000000)
#define COMEBACK_PAUSE_MAX_NS UINT64_C(1000000000)
#define COMEBACK_ANEW_NS UINT64_C(1000000000)

enum comeback_state { COMEBACK_UP, COMEBACK_AWAY, COMEBACK_TRYING, COMEBACK_CLAIMING, COMEBACK_LOST };
const char *comeback_state_name(enum comeback_state state);

/* What an event asks for. */
enum comeback_step {
	COMEBACK_NOTHING,
	COMEBACK_LEAVE,  /* it went AWAY: end its connections, what is under way waits */
	COMEBACK_PAUSE,  /* a try has failed: end its connections */
	COMEBACK_TRY,    /* start a session */
	COMEBACK_CLAIM,  /* claim its slabs */
	COMEBACK_RETURN, /* it is UP again: what waits goes on */
	COMEBACK_BURY,   /* it is LOST, see `end`: what it held is lost */
};

/* Why a donor is LOST. */
enum comeback_end {
	COMEBACK_LIVES,
	COMEBACK_TOO_LATE,  /* its patience was over; status: how it went away */
	COMEBACK_REFUSED,   /* for good; status */
	COMEBACK_RESTARTED, /* another start of its program has answered */
	COMEBACK_FORGOTTEN, /* it does not hold what we held any more */
};

struct comeback {
	enum comeback_state state;
	uint64_t patience_ns;
	uint64_t incarnation;
	struct random_state random;
	uint64_t since;  /* it went AWAY */
	uint64_t end_at; /* its patience is over */
	uint64_t due;    /* AWAY: the next try */
	unsigned tries;  /* since then */
	bool reset;      /* its end was heard, not guessed from silence */
	bool anew;       /* it was LOST, and holds nothing; until it has returned */
	bool unknown;    /* how it went away; `status` is a guess */
	bool met;        /* it has welcomed this process before */
	int status;      /* how it went away, or why it is LOST */
	enum comeback_end end;
};

/* The donor is UP. */
void comeback_init(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, uint64_t incarnation);
/* The donor is AWAY, to be tried at once: it served a process that has ended, of which this one takes over. How it went
   is not known: the first try that fails tells. */
void comeback_adopt(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, uint64_t incarnation, uint64_t now);
/* The donor could not be reached (@status) when others could: it is tried as one that was LOST. */
void comeback_absent(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, int status, uint64_t now);
/*
 * A connection to it has ended, or could not be had: @status. @final: whatever the status, it has refused us.
 */
enum comeback_step comeback_broke(struct comeback *comeback, int status, bool final, uint64_t now);
/* The session tried has been welcomed. @slabs: what the donor has for us; @held: what we know of. */
enum comeback_step comeback_welcomed(struct comeback *comeback, uint64_t incarnation, uint64_t slabs, uint64_t held);
/* All claims were answered; or one was denied. */
enum comeback_step comeback_claimed(struct comeback *comeback);
enum comeback_step comeback_denied(struct comeback *comeback);
/* A request waits for the donor that has done so since @since, also if it was UP meanwhile. */
void comeback_waits(struct comeback *comeback, uint64_t since);
/* A LOST donor, of which nothing is named any more, is AWAY from now on; false: it has refused us for good. */
bool comeback_anew(struct comeback *comeback, uint64_t now);
/* Whether @status says that it, or the way to it, was not there. */
bool comeback_is_out_of_reach(int status);
/* Whether the donor is neither up nor lost: its return is waited for. */
bool comeback_is_waited_for(const struct comeback *comeback);
enum comeback_step comeback_tick(struct comeback *comeback, uint64_t now);
/* When comeback_tick() is wanted next; UINT64_MAX: never. */
uint64_t comeback_due(const struct comeback *comeback);

#endif
