/*
 * traffic: random reads and writes on a store, many at once, each checked, and what the store logs meanwhile.
 *
 * Threads: the one that calls; the log may be written by any.
 */
#ifndef TESTS_FUNC_CLIENT_TRAFFIC_H
#define TESTS_FUNC_CLIENT_TRAFFIC_H

#include "common/random.h"
#include "tests/func/client/rig.h"

#define TRAFFIC_PAGES (8u * RIG_SLAB_PAGES)
#define TRAFFIC_DEPTH 32u
/* A donor that resets connections is told of after this. */
#define TELL_MS 2000u

struct traffic {
	struct rig *rig;
	struct random_state random;
	uint32_t versions[TRAFFIC_PAGES];
	bool busy[TRAFFIC_PAGES];
	struct {
		struct store_io io;
		uint32_t version;
		uint64_t since;
		bool active;
	} slots[TRAFFIC_DEPTH];
	uint32_t version;
	unsigned active;
	unsigned done, failed, wrong; /* so far */
	uint64_t slowest;             /* ns, of those done */
};

/* All pages are written once; bails out when that fails. */
void traffic_begin(struct traffic *traffic, struct rig *rig, uint64_t seed);
/* Requests for @ms, and until all are answered. */
void traffic_run(struct traffic *traffic, unsigned ms);
/* Reads every page: how many are not what was written last. */
unsigned traffic_check(struct traffic *traffic);

/* The log is kept instead of shown. Before any store is open. */
void log_keep(void);
/* Forgets what was kept. */
void log_begin(void);
/* Lines with @text that are kept. */
unsigned log_count(const char *text);
/* Waits until there are @count; false after some seconds. @ret_ns: when they were there, of clock_now(). */
bool log_wait(const char *text, unsigned count, uint64_t *ret_ns);
/* Shows what was kept, as comments, and forgets it. */
void log_show(void);

#endif
