/*
 * pressure: computes how many slabs this machine can spare, from readings of its memory. The module is pure: the caller
 * passes readings and the time.
 *
 * Theory of operation. The operator's reserve must stay available (MemAvailable, or what a control group leaves) beside
 * all memory that is lent. So the donor can lend the slabs in use, plus the memory that is available above the reserve.
 *
 *   available                       slabs that may be in use
 *   below the reserve               fewer than in use, by what is lacking; the surplus is recalled
 *   stalls (PSI), and less than     one step fewer than in use, unless slabs are on their way back already. When
 *   2 * (reserve + margin)          tasks stall, the kernel's estimate of available memory is too high.
 *   reserve .. reserve + margin     as many as in use, so that no slab is granted that is soon recalled
 *   above                           as many as fit
 *
 * The margin is one slab, or an eighth of the reserve if that is more.
 *
 * If tasks stall although memory is plentiful, some control group has hit its own limit. Returning slabs would not
 * help, so pressure_read() ignores these stalls.
 *
 *   calm --short, or stalls--> pressed --calm for PRESSURE_CALM_NS--> growing --target reached--> calm
 *                                 ^------------------short, or stalls--------+
 *
 * The target falls at once, but rises at once only in state calm. After pressure, the target rises again only after
 * PRESSURE_CALM_NS without pressure, one step at a time. So slabs do not come and go with a job whose use of memory
 * varies.
 *
 * Time is in ns, of any monotonic clock. One thread owns a struct pressure.
 */
#ifndef MEMSERVER_PRESSURE_H
#define MEMSERVER_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#define PRESSURE_CALM_NS UINT64_C(30000000000)
#define PRESSURE_STEP_NS UINT64_C(2000000000)
/* A step is this fraction of the maximum number of slabs. */
#define PRESSURE_STEPS 16u
/* Interval between readings while memory is plentiful, and while it is not. */
#define PRESSURE_READ_NS UINT64_C(500000000)
#define PRESSURE_READ_SHORT_NS UINT64_C(100000000)

enum pressure_state { PRESSURE_CALM, PRESSURE_PRESSED, PRESSURE_GROWING, PRESSURE_STATES };

struct pressure_config {
	uint32_t slabs; /* maximum to lend */
	uint64_t slab_bytes;
	uint64_t reserve; /* bytes */
};

/* The machine's memory at one moment. */
struct pressure_reading {
	uint64_t available; /* available bytes, without the slabs in use */
	uint32_t in_use;    /* slabs that have memory */
	uint32_t going;     /* slabs in use that will be released without further action */
	bool stalls;        /* PSI reported stalls since the last reading */
};

struct pressure {
	struct pressure_config config;
	enum pressure_state state;
	uint32_t target;     /* slabs that may be in use */
	uint64_t pressed_at; /* time of the last pressure, unless calm */
	uint64_t step_at;    /* growing: time of the next step */
	uint64_t read_at;    /* time of the next reading */
};

/* Begins in state calm. The first reading is due at once. */
void pressure_init(struct pressure *pressure, const struct pressure_config *config);
/* Takes a reading at time @now. Returns the target. */
uint32_t pressure_read(struct pressure *pressure, uint64_t now, const struct pressure_reading *reading);

#endif
