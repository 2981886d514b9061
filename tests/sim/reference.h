/*
 * reference: the contents that each page of a simulated store may have.
 *
 * Theory of operation. The contents of a page depend on its number, the number of its store and a version. Versions
 * count from 1 for each page. Version 0 is a page of zeroes. A page has the version of its last completed write. A page
 * is torn after a write that failed or was cut off, until its next completed write. A torn page may have the version of
 * the last completed write, or that of any later write. Only a torn page may be found damaged (-EBADMSG).
 *
 * Threads: one.
 */
#ifndef SIM_REFERENCE_H
#define SIM_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct reference_page {
	uint32_t written; /* the last version that a write used */
	uint32_t version; /* version of the last completed write */
	uint32_t first;   /* a torn page may also have this version or any later one */
	bool zeroes;      /* a torn page may also be zeroes */
	bool torn;        /* a write since then was cut off, or failed */
	bool saved;       /* its contents are also on the disk of a backup */
	bool writing;     /* a write or discard is under way */
	uint8_t readers;
	uint32_t under_way; /* the version being written */
	uint16_t generation;
};

struct reference {
	unsigned store;
	uint64_t pages;
	struct reference_page *page;
};

/* Sets up @pages pages of zeroes. */
void reference_open(struct reference *reference, unsigned store, uint64_t pages);
/* Writes the contents of this version of the page to @data. */
void reference_fill(const struct reference *reference, uint64_t page, uint32_t version, void *data);
/* Returns the version for the next write of the page; now and then 0. */
uint32_t reference_next(struct reference *reference, uint64_t page);
/* Notes that the page has exactly this version. */
void reference_settle(struct reference *reference, uint64_t page, uint32_t version);
/* Notes that the page may also have this version. */
void reference_doubt(struct reference *reference, uint64_t page, uint32_t version);
/* Returns true if the page may have the contents @data. */
bool reference_allows(const struct reference *reference, uint64_t page, const void *data);
/* Describes @data in @text: "zeroes" or "page 3 version 7 of store 1". Returns @text. */
const char *reference_name(const void *data, char text[96]);

#endif
