/*
 * health: how a device is doing, in one word and one sentence.
 *
 *   serving    all donors can be reached, and nothing is lost or lacking
 *   degraded   it serves, but a donor is lost or away, a slab lacks a replica, or lost pages are not written anew
 *   failed     every donor is lost, and there is no backup: nothing can be read or written
 *
 * Theory of operation. A donor that went away for a moment is not worth a line: a state is told when it has lasted for
 * HEALTH_TELL_NS.
 *
 * Pure, but for health_tell(), which logs. Threads: the main thread's. Allocates nothing.
 */
#ifndef BLOCKDEV_HEALTH_H
#define BLOCKDEV_HEALTH_H

#include "farpage/store.h"

#include <stdbool.h>
#include <stdint.h>

#define HEALTH_TELL_NS UINT64_C(2000000000)
#define HEALTH_WHY_MAX 96

enum health { HEALTH_SERVING, HEALTH_DEGRADED, HEALTH_FAILED, HEALTHS };
const char *health_name(enum health health); /* "serving" */

/* Counts of donors, slabs and pages, by which health_judge() decides. */
struct health_sight {
	unsigned donors, away, lost; /* away: out of reach, and waited for */
	uint64_t lacking, missing;   /* slabs without a replica; pages that were lost, and not written anew */
	bool backup;
};
/* Counts them. far_open() must have opened @store. */
struct health_sight health_look(const struct store *store, bool backup);
/* @ret_why: the worst reason: "1 of 2 donors is lost"; empty: HEALTH_SERVING. */
enum health health_judge(const struct health_sight *sight, char ret_why[HEALTH_WHY_MAX]);

/* The state that the log told last. All zero at first, which is HEALTH_SERVING. */
struct health_told {
	enum health told, seen;
	uint64_t since; /* that `seen` has lasted, clock_now() */
};
/* Tells of the device at @path when its state is another one for long enough. Every second or so. */
void health_tell(struct health_told *told, const char *path, enum health health, const char *why, uint64_t now);

#endif
