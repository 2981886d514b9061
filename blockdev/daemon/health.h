/*
 * health: the state of a device in one word and one sentence.
 *
 *   serving    all donors can be reached, and no page or replica is missing
 *   degraded   the device serves, but a donor is lost or away, a slab lacks a replica, or lost pages are not rewritten
 *   failed     every donor is lost and there is no backup: nothing can be read or written
 *
 * A new state is logged only when it has lasted HEALTH_TELL_NS, 2 s, because a donor may be away for a moment only.
 *
 * Threads. All functions run in the main thread. They do not allocate. health_judge() is pure.
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

/* The states that were last logged and last seen. All zero at first, which is HEALTH_SERVING. */
struct health_told {
	enum health told, seen;
	uint64_t since; /* clock_now() when `seen` began */
};
/* Logs the state of the device at @path if it has changed and lasted. The caller calls this once a second. */
void health_tell(struct health_told *told, const char *path, enum health health, const char *why, uint64_t now);

#endif
