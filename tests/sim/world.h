/*
 * world: the clock, the calendar and the dice of a simulated history.
 *
 * Theory of operation. One seed, one history: everything that happens is a call in a calendar, made when its time has
 * come, in the order of time and, at one time, in the order they were entered. What is left to chance is drawn from one
 * generator. Nothing else decides anything: no thread, no clock, no address. Each event is told (world_tell): printed
 * when somebody watches, and added to a hash, by which two runs of a seed are the same or are not; or, when there are
 * a million histories to get through, not even put into words.
 *
 * What a history makes of itself (wires, packets, tasks) lies in an arena that goes with it, so that an entry of the
 * calendar never finds freed memory, and an old connection's address is never a new one's.
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

/* What becomes of events: nothing; the hash; and they go to standard output. */
enum world_telling { WORLD_SILENT, WORLD_HASHED, WORLD_WATCHED };

/* Begins a history; ends what is left of one. */
void world_open(uint64_t seed, enum world_telling telling);
void world_close(void);

/* ns since whenever. */
uint64_t world_now(void);
/* Enters a call. @token comes back, by which the callee knows a call that it does not want any more. */
void world_at(uint64_t at, void (*call)(void *, uint64_t), void *what, uint64_t token);
/* Makes the next call; false: there is none before @until, which is now; or the history is over. */
bool world_step(uint64_t until);

/* Uniform in 0 .. @below - 1. */
uint64_t world_below(uint64_t below);
/* True once in @one_in times; never: 0. */
bool world_chance(uint64_t one_in);
void world_bytes(void *bytes, size_t size);

/* Zeroed memory that lasts as long as the history. */
void *world_memory(size_t size);

/* Something that must not be: the first is what is wrong with this history, which is over. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* NULL: nothing. */
const char *world_wrong(void);

void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of all that was told, unless WORLD_SILENT. */
uint64_t world_hash(void);

#endif
