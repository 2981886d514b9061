/*
 * pressure: how many slabs this machine can spare, from what it says of its memory. Pure: fed with readings and time.
 *
 * Theory of operation. The operator's reserve is to stay available (MemAvailable, or what a control group leaves) after
 * everything that is lent. So what can be lent is what is in use plus what is available above the reserve.
 *
 *   available < reserve              as many slabs less than are in use as make up for it: they are revoked
 *   stalls (PSI), and little to      a step less than are in use, as long as none is on its way back already: the
 *   spare (below twice the reserve)  kernel's estimate of what is available is then too high
 *   reserve .. reserve + margin      no more than are in use: nobody is granted what would be taken back again
 *   above                            that many more
 *
 * Stalls while there is plenty are a matter of some control group's own limit, which nothing given back here would
 * help.
 *
 *   calm --short, or stalls--> pressed --calm for PRESSURE_CALM_NS--> growing --as much as there is--> calm
 *                                 ^------------------short, or stalls--------+
 *
 * Less is said at once. More is said at once only while calm; after pressure only when there was none for a while, and
 * then a step at a time: a job whose use of memory goes up and down does not have slabs come and go with it.
 *
 * Time is in ns, of any monotonic clock. One owner thread.
 */
#ifndef MEMSERVER_PRESSURE_H
#define MEMSERVER_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#define PRESSURE_CALM_NS UINT64_C(30000000000)
#define PRESSURE_STEP_NS UINT64_C(2000000000)
/* A step: a part of the most that is lent. */
#define PRESSURE_STEPS 16u
/* How often to read while there is plenty, and while there is not. */
#define PRESSURE_READ_NS UINT64_C(500000000)
#define PRESSURE_READ_SHORT_NS UINT64_C(100000000)

enum pressure_state { PRESSURE_CALM, PRESSURE_PRESSED, PRESSURE_GROWING, PRESSURE_STATES };

struct pressure_config {
	uint32_t slabs; /* lent at most */
	uint64_t slab_bytes;
	uint64_t reserve; /* bytes */
};

/* What there is at one moment. */
struct pressure_reading {
	uint64_t available; /* bytes, with what is in use taken off */
	uint32_t in_use;    /* slabs that have memory */
	uint32_t going;     /* those of them whose memory will be back without anything being done */
	bool stalls;        /* PSI has told of stalls since the reading before */
};

struct pressure {
	struct pressure_config config;
	enum pressure_state state;
	uint32_t target;     /* slabs that may be in use */
	uint64_t pressed_at; /* last, unless calm */
	uint64_t step_at;    /* growing: the next step */
	uint64_t read_at;    /* the next reading */
};

const char *pressure_state_name(enum pressure_state state);

/* Nothing is in use; the first reading is due at once, and may say anything. */
void pressure_init(struct pressure *pressure, const struct pressure_config *config);
/* Returns the target. */
uint32_t pressure_read(struct pressure *pressure, uint64_t now, const struct pressure_reading *reading);

#endif
