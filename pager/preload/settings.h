/*
 * settings: the settings that `farpage run` passes to the library in the environment. The library reads them once,
 * before the program's own code runs, and copies them, because the program may change its environment.
 *
 *   FARPAGE_LOCAL        local budget, a size; without it the library does nothing
 *   FARPAGE_DONORS       URIs, comma separated
 *   FARPAGE_DONORS_FILE  absolute path of the donors file, which the pager follows (client/donor/donors_list.h)
 *   FARPAGE_KEY_FILE     absolute path of the pre-shared key
 *   FARPAGE_REPLICAS, FARPAGE_TIMEOUT_MS, FARPAGE_PREFETCH, FARPAGE_SPIN_US   as in struct farpage_options
 *   FARPAGE_SCRUB_RATE   bytes per second, a size: as in struct farpage_options
 *   FARPAGE_ENCRYPT      1: as in struct farpage_options
 *   FARPAGE_UNSAFE_DIO   1: as in struct farpage_options
 *   FARPAGE_VERBOSE      1: log more
 *   FARPAGE_BACKUP       absolute path of a file or block device: as in struct farpage_options
 *   FARPAGE_WINDOW       address space to reserve, a size
 *   FARPAGE_REPORT       absolute path of the report file (pager/counters.h)
 *   FARPAGE_REPORT_PIDS  the PID namespace of `farpage run`, as /proc/self/ns/pid names it
 *   FARPAGE_USER         name of the user who runs the program, for the donors' operators
 *   FARPAGE_START_BYTES  allocated bytes that start the pager, a size
 */
#ifndef PAGER_PRELOAD_SETTINGS_H
#define PAGER_PRELOAD_SETTINGS_H

#include "farpage/farpage.h"

#include <stdbool.h>
#include <stdint.h>

#define SETTINGS_DONORS_MAX 1024
#define SETTINGS_TEXT_MAX 131072

struct settings {
	struct farpage_options options;
	uint64_t start_bytes;
	bool verbose;
	const char *report;      /* or NULL */
	const char *report_pids; /* or NULL */
	const char *donors_file; /* or NULL */
	const char *user;        /* or NULL */
	const char *wrong;       /* the variable whose value is invalid, or NULL */
	const char *donors[SETTINGS_DONORS_MAX];
	unsigned text_used;
	char text[SETTINGS_TEXT_MAX]; /* the strings that the pointers above point to; the last member */
};

/* Reads the settings, without malloc. Returns false if the library is not configured. */
bool settings_read(struct settings *settings);

#endif
