/* run_donors: checks whether the donors of `farpage run` answer, and how much memory they have. */
#ifndef CLI_RUN_DONORS_H
#define CLI_RUN_DONORS_H
#include "client/far.h"

struct run_donors {
	/* Bytes of pages for which all donors together have room, if each page has all its replicas. */
	uint64_t free_bytes;
	uint64_t slab_bytes; /* slab size of the first donor */
};

struct run_options;

/* Reads the key, and asks all donors of @options at once. Also checks that the donors are in enough failure domains,
   that they have room for options->far or for anything, and that options->backup has room. Returns 0, or -errno after a
   logged line. */
int run_donors_check(const struct run_options *options, struct run_donors *ret_donors);
#endif
