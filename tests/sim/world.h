/*
 * world: the clock, the calendar and the random generator of a simulated history.
 *
 * Theory of operation. A seed determines a history. Every event is a call that was entered into a calendar. The calls
 * are made in order of their times, and for the same time in the order in which they were entered. All random
 * decisions use one generator, and no decision depends on a real thread, clock or address. So a seed gives the same
 * history each time. To check this, world_tell() adds each event to a hash. It also prints the events of a watched
 * history. In a silent history it does neither, to save time.
 *
 * The objects of a history (wires, packets, tasks) are allocated in an arena, and freed only at the history's end. So
 * a call in the calendar never uses freed memory, and a new connection never has the address of an old one.
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

/* What world_tell() does with events: nothing, hash them, or hash and print them to standard output. */
enum world_telling { WORLD_SILENT, WORLD_HASHED, WORLD_WATCHED };

/* Begins a history, and frees the one before. */
void world_open(uint64_t seed, enum world_telling telling);
void world_close(void);

/* Returns the time in ns since an arbitrary start. */
uint64_t world_now(void);
/* Enters the call @call(@what, @token) for the time @at. A call cannot be removed. But the callee can
   ignore a call whose @token is no longer the current one. */
void world_at(uint64_t at, void (*call)(void *, uint64_t), void *what, uint64_t token);
/*
 * Makes the next call of the calendar. Returns false if the history has failed, or if there is no call before @until,
 * which then becomes the present time.
 */
bool world_step(uint64_t until);

/* Returns a random number from 0 to @below - 1. */
uint64_t world_below(uint64_t below);
/* Returns true once in @one_in times at random, and never if @one_in is 0. */
bool world_chance(uint64_t one_in);
void world_bytes(void *bytes, size_t size);

/* Returns zeroed memory that lasts until the end of the history. */
void *world_memory(size_t size);

/* Fails the history, which then ends. The text of the first failure is stored. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the text of the history's failure, or NULL. */
const char *world_wrong(void);

void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the hash of all events, except with WORLD_SILENT. */
uint64_t world_hash(void);

#endif
