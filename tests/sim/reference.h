/*
 * reference: the contents that each page of a simulated store may have.
 *
 * Theory of operation. Programs write contents that are computed from the number of the store, the number of the
 * page, and a version. The versions of a page count from 1; version 0 is a page of zeroes. Normally a page has the
 * version of its last completed write. But after a write that failed or was cut off, nobody knows which contents the
 * page has: it is *torn* until the next write completes. A torn page may have the version of the last completed
 * write, or of any write after it, and a read of it may fail with -EBADMSG.
 *
 * Threads: one.
 */
#ifndef SIM_REFERENCE_H
#define SIM_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct reference_page {
	uint32_t written; /* the highest version that a write has used */
	uint32_t version; /* version of the last completed write */
	uint32_t first;   /* a torn page may have `version`, or any version from this one on */
	bool zeroes;      /* a torn page may also be zeroes */
	bool torn;        /* a write after the last completed one was cut off or failed */
	bool saved;       /* its contents are also on the disk of a backup */
	bool writing;     /* a write or discard is in progress */
	uint8_t readers;
	uint32_t under_way; /* the version being written */
	uint16_t generation;
};

struct reference {
	unsigned store;
	uint64_t pages;
	struct reference_page *page;
};

/* Initializes @pages pages of zeroes. */
void reference_open(struct reference *reference, unsigned store, uint64_t pages);
/* Writes the contents of this version of the page to @data. */
void reference_fill(const struct reference *reference, uint64_t page, uint32_t version, void *data);
/* Returns the version for the next write of the page, which is sometimes 0. */
uint32_t reference_next(struct reference *reference, uint64_t page);
/* Records that the page has exactly this version. */
void reference_settle(struct reference *reference, uint64_t page, uint32_t version);
/* Records that the page may also have this version. */
void reference_doubt(struct reference *reference, uint64_t page, uint32_t version);
/* Returns true if the page may have the contents @data. */
bool reference_allows(const struct reference *reference, uint64_t page, const void *data);
/* Describes @data in @text: "zeroes" or "page 3 version 7 of store 1". Returns @text. */
const char *reference_name(const void *data, char text[96]);

#endif
