/*
 * reference: what each page of a store may read as: the array that a simulated store is held against.
 *
 * Theory of operation. What is written to a page is made from its number, its store's and a version, counted for each
 * page from 1 on; version 0 is a page of zeroes. A page has the version of its last completed write; one whose write
 * failed, or was cut off, is also what it was before, until it is written again: then, and only then, it may also turn
 * out to be damaged (-EBADMSG).
 *
 * Threads: one.
 */
#ifndef SIM_REFERENCE_H
#define SIM_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct reference_page {
	uint32_t written; /* the last version made */
	uint32_t version; /* of the last completed write */
	uint32_t first;   /* if it is torn, it may also be this or any later one */
	bool zeroes;      /* or zeroes */
	bool torn;        /* a write since then was cut off, or failed */
	bool saved;       /* and all of it is on the disk of a backup as well */
	bool writing;     /* it is being written or discarded */
	uint8_t readers;
	uint32_t under_way; /* the version being written */
	uint16_t generation;
};

struct reference {
	unsigned store;
	uint64_t pages;
	struct reference_page *page;
};

/* All zero. */
void reference_open(struct reference *reference, unsigned store, uint64_t pages);
/* The page's contents of this version. */
void reference_fill(const struct reference *reference, uint64_t page, uint32_t version, void *data);
/* Of a page about to be written: the next version, now and then zeroes. */
uint32_t reference_next(struct reference *reference, uint64_t page);
/* It is this now, for certain. */
void reference_settle(struct reference *reference, uint64_t page, uint32_t version);
/* It may be this from now on, too. */
void reference_doubt(struct reference *reference, uint64_t page, uint32_t version);
/* Whether @data may be the page's contents. */
bool reference_allows(const struct reference *reference, uint64_t page, const void *data);
/* What @data is: "zeroes", "page 3 version 7 of store 1"; for people. */
const char *reference_name(const void *data, char text[96]);

#endif
