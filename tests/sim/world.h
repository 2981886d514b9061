/*
 * world: the clock, the calendar and the random generator of a simulated history.
 *
 * Theory of operation. One seed gives one history. Every event is a call from a calendar. Calls come in order of time.
 * Calls at the same time come in the order in which they were entered. All random decisions come from one generator. No
 * decision depends on a thread, a clock or an address. world_tell() adds each event to a hash, which shows if two runs
 * of a seed are the same. It also prints the events of a watched history. A silent history does not even format them,
 * because there may be a million histories to run.
 *
 * An arena holds all objects of a history (wires, packets, tasks) until its end. So an entry of the calendar never
 * finds freed memory, and a new connection never has the address of an old one.
 *
 * Threads: one.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* Events are ignored, hashed, or hashed and printed to standard output. */
enum world_telling { WORLD_SILENT, WORLD_HASHED, WORLD_WATCHED };

/* Begins a history. Ends the last one. */
void world_open(uint64_t seed, enum world_telling telling);
void world_close(void);

/* Returns the time in ns since an arbitrary start. */
uint64_t world_now(void);
/* Enters the call @call(@what, @token) for the time @at. By its token the callee can recognize an outdated call. */
void world_at(uint64_t at, void (*call)(void *, uint64_t), void *what, uint64_t token);
/*
 * Makes the next call. Returns false if there is no call until @until, which becomes the present time, or if the
 * history has failed.
 */
bool world_step(uint64_t until);

/* Returns a random number from 0 to @below - 1. */
uint64_t world_below(uint64_t below);
/* Returns true once in @one_in times; never for 0. */
bool world_chance(uint64_t one_in);
void world_bytes(void *bytes, size_t size);

/* Returns zeroed memory that lasts until the end of the history. */
void *world_memory(size_t size);

/* Fails the history, which ends it. Keeps the text of the first failure. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the failure of the history, or NULL. */
const char *world_wrong(void);

void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the hash of all events, except with WORLD_SILENT. */
uint64_t world_hash(void);

#endif
