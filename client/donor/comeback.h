/*
 * comeback: decides if one donor can be reached, and how long to wait if it cannot. A state machine without I/O or
 * clock.
 *
 *     UP --broke--> AWAY --backoff over--> TRYING --welcomed, holds nothing--> UP
 *                    ^                       |  welcomed --> CLAIMING --all claimed--> UP
 *                    +---- it failed --------+------------------+
 *     any state --patience over, refused for good, or not the same donor any more--> LOST --anew--> AWAY
 *
 * Theory of operation. The caller (client/donor/donors.c) reports each event of the donor's connections. Each
 * report returns at most one step for the caller to carry out.
 *
 * When any connection of an UP donor breaks, the donor is AWAY, and the caller ends all its connections. After a
 * pause, the client tries a new session. The pauses between tries double until they reach a second. A random part of
 * each pause, at most half, is left out, so that many clients do not try at the same moment.
 *
 * If the donor welcomes the session, it may still have our pages. It has them if its program was not restarted (the
 * incarnation is the same) and still holds slabs for us. The client then claims the slabs that it knows of, and so
 * learns which slabs the donor has taken. When all claims are answered, the donor is UP.
 *
 * Patience with a donor is over after patience_ns. This time begins when the donor goes AWAY. If a request has
 * already waited for the donor in earlier outages, these waits count, too. Otherwise a donor that goes away again and
 * again could delay the request for ever. When patience is over, the donor is LOST.
 *
 * Patience with a donor that has the last copy of a page is longer: last_ns. A copy is the last one if no donor that is
 * UP has another. So an outage of all donors, for example while a switch starts again, loses nothing. The caller knows
 * which copies there are. When patience is over (comeback_is_overdue()), it calls comeback_needed() or
 * comeback_not_needed(). A donor that is not needed any more, because another one is back, has patience_ns from then
 * on.
 *
 * Some donors become LOST earlier. If a connection was reset and the donor's machine then refuses connections for
 * COMEBACK_REFUSED_NS, the donor's program has ended and its memory is gone. If the last connection ended because the
 * donor was silent, and the next connection is refused, the machine may be booting. So the client waits. When the
 * donor answers after the reboot, it has a new incarnation, and is then LOST. A name that does not resolve, or a
 * missing route, may come back, so the client waits, too. If this machine lacks something (memory, descriptors, a
 * device), the donor is not at fault, so the client waits until patience is over.
 *
 * A donor that is being upgraded sends SUSPEND (-ERESTART). Its machine then refuses connections until the next
 * program listens, so the client waits, too. A client that did not receive SUSPEND waits only for
 * COMEBACK_REFUSED_NS.
 *
 * A donor may refuse a try, for example because of the key. A donor that has never welcomed this process is then LOST
 * at once. Otherwise the client keeps trying, because an attacker may have made up the refusal, and the donor is LOST
 * when patience is over. A welcome may show that the donor is of no use (-EINVAL). The welcome's MAC proves this, so
 * the donor is LOST at once.
 *
 * Used again. comeback_anew() makes a LOST donor AWAY. The donor then counts as one that holds nothing of ours. The
 * client tries it every second without end, unless the donor refuses us for good.
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
/* If a donor's machine refuses connections for this long after a reset, the donor is LOST. */
#define COMEBACK_REFUSED_NS UINT64_C(400000000)
/* Patience with a donor that has the last copy of a page grows by this much at a time. */
#define COMEBACK_NEEDED_NS UINT64_C(500000000)

enum comeback_state { COMEBACK_UP, COMEBACK_AWAY, COMEBACK_TRYING, COMEBACK_CLAIMING, COMEBACK_LOST };

/* The next step for the caller. */
enum comeback_step {
	COMEBACK_NOTHING,
	COMEBACK_LEAVE, /* the donor went AWAY: end its connections; requests wait */
	COMEBACK_PAUSE, /* a try has failed: end its connections */
	COMEBACK_TRY,
	COMEBACK_CLAIM,
	COMEBACK_RETURN, /* the donor is UP again: requests continue */
	COMEBACK_BURY,   /* the donor is LOST, and so are its slabs; `end` is the reason */
};

enum comeback_end {
	COMEBACK_LIVES,
	COMEBACK_TOO_LATE,  /* patience was over; `status` is the reason why the donor went away */
	COMEBACK_REFUSED,   /* the donor refused us for good; `status` is its refusal */
	COMEBACK_RESTARTED, /* the donor's program was started again */
	COMEBACK_FORGOTTEN, /* the donor does not hold our slabs any more */
};

struct comeback_config {
	uint64_t patience_ns, last_ns; /* last_ns is at least patience_ns */
	uint64_t seed;                 /* of the random parts of pauses */
};

struct comeback {
	enum comeback_state state;
	uint64_t patience_ns, last_ns;
	uint64_t incarnation;
	struct random_state random;
	uint64_t since; /* when the donor went AWAY */
	uint64_t first; /* when it went AWAY, or since when a request has waited for it, if that is earlier */
	uint64_t again; /* when it ceased to be needed: waits count from then on; or 0 */
	bool needed;    /* patience_ns is over, and the donor has the last copy of a page */
	uint64_t end_at;
	uint64_t due;   /* if the donor is AWAY: when to try next */
	unsigned tries; /* tries since the donor went out of reach */
	bool reset;     /* the last connection was reset; if false, its end was concluded from silence */
	bool refused;   /* since the reset, the donor's machine has refused a connection, first at `refused_since` */
	uint64_t refused_since;
	bool anew;    /* the donor was LOST, holds nothing, and was not UP since */
	bool unknown; /* the reason why the donor went away is not known: `status` is a guess */
	bool met;     /* the donor has welcomed this process before */
	int status;   /* the reason why the donor went away or is LOST */
	enum comeback_end end;
};

/* Begins with a donor that is UP. */
void comeback_init(struct comeback *comeback, const struct comeback_config *config, uint64_t incarnation);
/* Begins with a donor of an adopted store. It is AWAY, and is tried at once. If the first try fails, the try's status
   becomes the reason why the donor went away. */
void comeback_adopt(struct comeback *comeback, const struct comeback_config *config, uint64_t incarnation,
		    uint64_t now);
/* Begins with a donor that could not be reached (@status) when the store was opened without it. It is tried like a
   LOST donor. */
void comeback_absent(struct comeback *comeback, const struct comeback_config *config, int status, uint64_t now);
/* Ends the use of a donor in any state, and forgets its incarnation. comeback_absent() may begin with the donor
   again. */
void comeback_let_go(struct comeback *comeback);
/*
 * A connection to the donor has ended, or could not be made, with @status. @final means that the donor itself has
 * refused us, whatever @status is.
 */
enum comeback_step comeback_broke(struct comeback *comeback, int status, bool final, uint64_t now);
/* The donor has welcomed a try. It holds @slabs slabs for us, and the chunk table names @held slabs on it. */
enum comeback_step comeback_welcomed(struct comeback *comeback, uint64_t incarnation, uint64_t slabs, uint64_t held);
/* comeback_claimed(): all claims were answered. comeback_denied(): a claim was denied because the slab is gone. */
enum comeback_step comeback_claimed(struct comeback *comeback);
enum comeback_step comeback_denied(struct comeback *comeback);
/* A request has been waiting for the donor since @since, although the donor may have been UP in between. */
void comeback_waits(struct comeback *comeback, uint64_t since);
/* Returns true if the next comeback_tick() will make the donor LOST because patience is over. */
bool comeback_is_overdue(const struct comeback *comeback, uint64_t now);
/* The donor is overdue, and has the last copy of a page. Prolongs patience by a step, at most to last_ns. Returns true
   if this has just begun. */
bool comeback_needed(struct comeback *comeback, uint64_t now);
/* The donor is overdue, and has no last copy. If it had one before, its patience begins anew. */
void comeback_not_needed(struct comeback *comeback, uint64_t now);
/* Makes a LOST donor AWAY, so that it is tried again. No slot may name its slabs. Returns false, and changes
   nothing, if the donor has refused us for good. */
bool comeback_anew(struct comeback *comeback, uint64_t now);
/* Returns true if @status means that the donor or the route to it is missing. Returns false if this machine lacks
   something. */
bool comeback_is_out_of_reach(int status);
/* Returns true if the donor is neither UP nor LOST, so that requests wait for it. */
bool comeback_is_waited_for(const struct comeback *comeback);
enum comeback_step comeback_tick(struct comeback *comeback, uint64_t now);
/* Returns when to call comeback_tick() next, or UINT64_MAX for never. */
uint64_t comeback_due(const struct comeback *comeback);

#endif
