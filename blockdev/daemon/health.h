/*
 * health: the state of a device in one word and one sentence.
 *
 *   serving    all donors can be reached, and no page or replica is missing
 *   degraded   the device serves, but a donor is lost or away, a slab lacks a replica, or lost pages are not rewritten
 *   failed     every donor is lost and there is no backup: nothing can be read or written
 *
 * A new state is logged only after it has lasted HEALTH_TELL_NS, 2 s, because a donor may be away only for a moment.
 *
 * Threads. All functions run in the main thread. They do not allocate. health_judge() depends only on its input.
 */
#ifndef BLOCKDEV_HEALTH_H
#define BLOCKDEV_HEALTH_H

#include "client/store.h"

#include <stdbool.h>
#include <stdint.h>

#define HEALTH_TELL_NS UINT64_C(2000000000)
#define HEALTH_WHY_MAX 96

enum health { HEALTH_SERVING, HEALTH_DEGRADED, HEALTH_FAILED, HEALTHS };
const char *health_name(enum health health);

/* The input of health_judge(). */
struct health_sight {
	unsigned donors, away, lost; /* away: cannot be reached now, but may return */
	uint64_t lacking, missing;   /* replicas that slabs lack; lost pages that were not rewritten since */
	bool backup;
};
/* Collects the counts. @store was opened by far_open(). */
struct health_sight health_look(const struct store *store, bool backup);
/* Returns the state. Writes the most important reason ("1 of 2 donors is lost"), or "" for HEALTH_SERVING. */
enum health health_judge(const struct health_sight *sight, char ret_why[HEALTH_WHY_MAX]);

/* The state that was last logged, and the state that was last seen. All fields are 0 at first, which means
   HEALTH_SERVING. */
struct health_told {
	enum health told, seen;
	uint64_t since; /* clock_now() when `seen` began */
};
/* Logs the state of the device at @path if the state has changed and lasted. The caller calls this once a second. */
void health_tell(struct health_told *told, const char *path, enum health health, const char *why, uint64_t now);

#endif
