/*
 * comeback: tells if a donor can be reached, and how long to wait for one that cannot. A state machine without I/O or
 * clock.
 *
 *     UP --broke--> AWAY --backoff over--> TRYING --welcomed, holds nothing--> UP
 *                    ^                       |  welcomed --> CLAIMING --all claimed--> UP
 *                    +---- it failed --------+------------------+
 *     any of them --patience over, refused for good, or not the same donor any more--> LOST --anew--> AWAY
 *
 * Theory of operation. The caller (client/donor/donors.c) reports each event of the donor's connections, and gets
 * at most one thing to do as the answer.
 *
 * A connection that breaks, for whatever reason, makes the donor AWAY, and all its connections are ended. After a
 * moment, the client tries a new session. The pauses between tries double, up to a second. Chance takes off up to half
 * of each pause, so that many clients do not come at once.
 *
 * A refusal of a try is final if it lasts until patience is over. A donor that this process has not met yet is lost at
 * its first refusal. So is any donor whose welcome shows that it is of no use (-EINVAL). If this machine lacks
 * something (memory, descriptors, a device), no donor is lost before patience is over.
 *
 * The donor still has our pages if its program was not started again (the incarnation is the same) and it still
 * holds slabs for us. The client then claims the slabs that it knows of, and so learns which of them the donor has
 * taken.
 *
 * Patience counts from when the donor went out of reach. It counts from an earlier time if a request has waited since
 * then: a donor that comes and goes must not hold up a request for ever.
 *
 * A donor whose connection was reset, and whose machine then refuses the next one, has no program any more. The memory
 * has gone with the program. So the donor is LOST at once, and no job waits in vain. After silence, a refusal may come
 * from a machine that is starting up. Such a donor is waited for, and is then LOST because it has started anew. The same
 * holds after a SUSPEND of a donor that is being upgraded (-ERESTART). A
 * missing name or route may come back, so such a donor is waited for, too.
 *
 * Used again. comeback_anew() lets a LOST donor be used again, as a donor that holds nothing. It is tried every second,
 * without an end. A try that fails changes nothing. After a refusal for good, there is no further try.
 *
 * Threads: any, one at a time.
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

/* The next step of the caller. */
enum comeback_step {
	COMEBACK_NOTHING,
	COMEBACK_LEAVE,  /* the donor went AWAY: end its connections; requests wait */
	COMEBACK_PAUSE,  /* a try has failed: end its connections */
	COMEBACK_TRY,    /* start a session */
	COMEBACK_CLAIM,  /* claim its slabs */
	COMEBACK_RETURN, /* the donor is UP again: requests go on */
	COMEBACK_BURY,   /* the donor is LOST, and so are its slabs; `end` says why */
};

/* Why a donor is LOST. */
enum comeback_end {
	COMEBACK_LIVES,
	COMEBACK_TOO_LATE,  /* patience was over; `status` is how the donor went away */
	COMEBACK_REFUSED,   /* the donor refused us for good; `status` is its refusal */
	COMEBACK_RESTARTED, /* its program was started again */
	COMEBACK_FORGOTTEN, /* it does not hold our slabs any more */
};

struct comeback {
	enum comeback_state state;
	uint64_t patience_ns;
	uint64_t incarnation;
	struct random_state random;
	uint64_t since;  /* when the donor went AWAY */
	uint64_t end_at; /* when patience is over */
	uint64_t due;    /* when to try next, if the donor is AWAY */
	unsigned tries;  /* since the donor went out of reach */
	bool reset;      /* the connection was reset; otherwise its end was concluded from silence */
	bool anew;       /* it was LOST, holds nothing, and has not returned yet */
	bool unknown;    /* how the donor went away is not known: `status` is a guess */
	bool met;        /* it has welcomed this process before */
	int status;      /* how the donor went away, or why it is LOST */
	enum comeback_end end;
};

/* Begins with a donor that is UP. */
void comeback_init(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, uint64_t incarnation);
/* Begins with an AWAY donor of an ended process, whose store this one takes over. The donor is tried at once. The first
   try that fails shows how the donor went away. */
void comeback_adopt(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, uint64_t incarnation, uint64_t now);
/* Begins with a donor that could not be reached (@status) although others could. It is tried like a LOST donor. */
void comeback_absent(struct comeback *comeback, uint64_t patience_ns, uint64_t seed, int status, uint64_t now);
/* Lets go of the donor, whatever its state, and forgets its incarnation. comeback_absent() begins with it again. */
void comeback_let_go(struct comeback *comeback);
/*
 * A connection to the donor has ended, or could not be made, with @status. @final means that the donor itself has
 * refused us, whatever the status.
 */
enum comeback_step comeback_broke(struct comeback *comeback, int status, bool final, uint64_t now);
/* The donor has welcomed the session that was tried. The donor holds @slabs slabs for us. We know of @held. */
enum comeback_step comeback_welcomed(struct comeback *comeback, uint64_t incarnation, uint64_t slabs, uint64_t held);
/* All claims were confirmed, or one was denied for good. */
enum comeback_step comeback_claimed(struct comeback *comeback);
enum comeback_step comeback_denied(struct comeback *comeback);
/* A request has waited for the donor since @since. The donor may have been UP in between. */
void comeback_waits(struct comeback *comeback, uint64_t since);
/* Makes a LOST donor AWAY, to be tried again. No slot may name its slabs any more. Returns false, and changes nothing,
   if the donor has refused us for good. */
bool comeback_anew(struct comeback *comeback, uint64_t now);
/* Returns true if @status means that the donor, or the way to it, was missing. */
bool comeback_is_out_of_reach(int status);
/* Returns true if the donor is neither UP nor LOST: requests wait for its return. */
bool comeback_is_waited_for(const struct comeback *comeback);
enum comeback_step comeback_tick(struct comeback *comeback, uint64_t now);
/* Returns when to call comeback_tick() next, or UINT64_MAX for never. */
uint64_t comeback_due(const struct comeback *comeback);

#endif
