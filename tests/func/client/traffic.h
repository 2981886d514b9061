/*
 * traffic: makes many random reads and writes on a store at once, checks each, and keeps the store's log.
 *
 * Threads: the calling thread. Any thread may write the log.
 */
#ifndef TESTS_FUNC_CLIENT_TRAFFIC_H
#define TESTS_FUNC_CLIENT_TRAFFIC_H

#include "common/random.h"
#include "tests/func/client/rig.h"

#define TRAFFIC_PAGES (8u * RIG_SLAB_PAGES)
#define TRAFFIC_DEPTH 32u
/* A donor that resets connections is reported after this time. */
#define TELL_MS 1500u

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
	unsigned done, failed, wrong; /* requests so far */
	uint64_t slowest;             /* time of the slowest request, in ns */
};

/* Writes all pages once. Bails out when that fails. */
void traffic_begin(struct traffic *traffic, struct rig *rig, uint64_t seed);
/* Sends requests for @ms, then waits until all are answered. */
void traffic_run(struct traffic *traffic, unsigned ms);
/* Writes the first @count pages anew, one by one. */
void traffic_rewrite(struct traffic *traffic, uint32_t count);
/* Reads every page. Returns the number of pages without their last contents. */
unsigned traffic_check(struct traffic *traffic);
/* Returns true if no request has failed or was wrong so far, and every page has its last contents. */
bool traffic_good(struct traffic *traffic);

/* Keeps the log instead of showing it. Call before any store is open. */
void log_keep(void);
/* Forgets the kept log. */
void log_begin(void);
/* Returns the kept log, until the next call. */
char *log_text(void);
/* Returns how often @text is in the kept log. */
unsigned log_count(const char *text);
/* Waits until the log has @text @count times. Returns false if it never has. *@ret_ns is clock_now() afterwards;
   @ret_ns may be NULL. */
bool log_wait(const char *text, unsigned count, uint64_t *ret_ns);
/* Shows the kept log as comments, and forgets it. */
void log_show(void);

#endif
