/*
 * integrity: keeps a checksum and a generation of each page (10 bytes). For a sealed page (seal.h), keeps a
 * generation and the record that opens the page (26 bytes).
 *
 * Theory of operation. To write a page, integrity_prepare() first stores the checksum of the new contents. Then the
 * contents are sent to donors. When all donors have answered, integrity_commit() raises the generation. A fetched
 * page is compared with the checksum (integrity_check()).
 *
 * The generation also says if the page has contents on donors (it is live), reads as zeroes (never written, or
 * discarded), or is lost. The checksum is keyed with a secret of this store, and covers page number and generation. A
 * donor can therefore lose a page, but it cannot change a page, exchange two pages, or return an old page without
 * notice. After 32,766 writes of a page its generations repeat. This repetition is harmless, because an old copy with
 * other bytes still has another checksum. Both arrays are mapped lazily, so pages that were never written use no
 * memory.
 *
 * Sealed pages. The seal's record replaces the checksum, and also covers page number and generation. Whatever this
 * comment says of checksums is true of records, too. The key is the first part of the secret. The counter of seal
 * numbers lies beside the records, so a process that adopts the store continues the same counter.
 *
 * Backup. With a backup (backup.h), a page whose last donor is lost becomes KEPT instead of lost: only the backup
 * still has its contents. A bit in the word of the generation marks the page as KEPT. The checksum shows if the
 * backup returns the right bytes.
 *
 * After a crash. The arrays may lie in a file (state.h), so that another process can adopt them. The earlier process
 * may have been killed at one of these moments of a write:
 *
 *   before the checksum    Nothing was sent, so the page is unchanged. If the record of a sealed page was stored only
 *                          in part, reads of the page fail.
 *   before the generation  The checksum already belongs to the new contents and the next generation. Donors may have
 *                          old, new or partly written contents. None of these contents match under the current
 *                          generation, so reads fail with -EBADMSG until the page is written again. A page without
 *                          contents, or a lost page, stays as it was.
 *   after the generation   The write is complete.
 *
 * The next write of such a page, by the next process, gets the same generation as the interrupted write. That is
 * harmless, because writes of different contents have different checksums. The interrupted write cannot reach a
 * donor later, because a donor ends its old connections before it accepts the next process. If the process was
 * killed during a discard, some of the pages are discarded.
 *
 * Threads. Any. Each page has at most one writer at a time (the contract of client/store.h). The exception is
 * integrity_lose(), which the control thread may call at any time. A write that completes at the same moment
 * notices this: see write_commit() in far_answer.c.
 */
#ifndef CLIENT_INTEGRITY_H
#define CLIENT_INTEGRITY_H

#include "client/page/seal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INTEGRITY_SECRET_SIZE 192u
/* The words that a page has in the array of sums: one for a checksum, three for a seal's record. */
#define INTEGRITY_SUM_WORDS(sealed) ((sealed) ? 3u : 1u)

#define INTEGRITY_NONE 0u
#define INTEGRITY_LOST UINT16_MAX
/* The bit of a generation's word that marks a page as KEPT. */
#define INTEGRITY_KEPT 0x8000u

struct integrity {
	uint64_t pages;
	_Atomic uint16_t *generations;
	_Atomic uint64_t *sums;
	_Atomic uint64_t *numbers; /* the counter of seal numbers, or NULL if pages are not sealed */
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	bool placed; /* the memory belongs to the caller, and is populated before use */
	bool told;   /* a failure to populate the memory was logged */
	bool keeps;  /* the store has a backup */
	_Atomic uint64_t kept;
};

/* Opens arrays for @pages pages that read as zeroes. Returns 0 or -ENOMEM. */
int integrity_open(struct integrity *integrity, uint64_t pages);
int integrity_open_sealed(struct integrity *integrity, uint64_t pages);
/* Opens arrays in the caller's memory, which must outlive them: the generations and sums of @pages pages. The memory
   has the arrays of an ended process, or is holes of a file. Holes stay holes until integrity_begin(). @numbers is
   NULL if pages are not sealed. */
void integrity_place(struct integrity *integrity, uint64_t pages, _Atomic uint16_t *generations, _Atomic uint64_t *sums,
		     _Atomic uint64_t *numbers, const uint8_t secret[INTEGRITY_SECRET_SIZE]);
/* Frees the arrays. @integrity may be all zero. */
void integrity_close(struct integrity *integrity);

/*
 * integrity_populate() makes these pages' part of the arrays present (populate.h). integrity_begin() also clears it,
 * and is called before the pages are first used. Both do nothing if the arrays are not in the caller's memory. Both
 * return 0 or -ENOMEM.
 */
int integrity_populate(struct integrity *integrity, uint64_t page, uint64_t count);
int integrity_begin(struct integrity *integrity, uint64_t page, uint64_t count);
/* Returns the size of the arrays for @pages pages, in bytes. */
uint64_t integrity_memory(const struct integrity *integrity, uint64_t pages);
uint64_t integrity_live(const struct integrity *integrity, uint64_t page, uint64_t count);

/* Returns how many pages of the store are lost. Reads the generation of every page. */
uint64_t integrity_count_lost(const struct integrity *integrity);

enum integrity_kind { INTEGRITY_IS_ZERO, INTEGRITY_IS_LIVE, INTEGRITY_IS_LOST, INTEGRITY_IS_KEPT };
enum integrity_kind integrity_kind(const struct integrity *integrity, uint64_t page);
/* Returns the length of the run of pages from @page on that are of one kind, 1 .. @max. */
uint32_t integrity_run(const struct integrity *integrity, uint64_t page, uint32_t max);

/* Stores the checksum of @data, which the caller is about to write to @page. integrity_commit() makes it valid. */
void integrity_prepare(struct integrity *integrity, uint64_t page, const void *data);
/* Completes the prepared writes of these pages. Returns how many of the pages were live before. */
uint32_t integrity_commit(struct integrity *integrity, uint64_t page, uint32_t count);
/* Completes writes that went only to the backup. The pages are then KEPT. */
uint32_t integrity_commit_kept(struct integrity *integrity, uint64_t page, uint32_t count);
/* Makes these pages read as zeroes again. Returns how many of them were live. */
uint64_t integrity_forget(struct integrity *integrity, uint64_t page, uint64_t count);
/* Makes live pages lost, or KEPT if the store has a backup. Returns how many pages became lost. */
uint64_t integrity_lose(struct integrity *integrity, uint64_t page, uint64_t count);
/* Makes live pages KEPT, because the backup has them. Returns how many pages were live. */
uint32_t integrity_keep(struct integrity *integrity, uint64_t page, uint32_t count);
/* integrity_restore() makes a KEPT page live again. integrity_give_up() makes it lost. Both return false if the page is
   not KEPT. */
bool integrity_restore(struct integrity *integrity, uint64_t page);
bool integrity_give_up(struct integrity *integrity, uint64_t page);
/* Adds to `kept` how many of these pages are KEPT. Another process has left the pages. */
void integrity_count_kept(struct integrity *integrity, uint64_t page, uint64_t count);

/* Returns true if @data has the contents of the last write of @page. Returns false for a page that is neither live
   nor KEPT. */
bool integrity_check(const struct integrity *integrity, uint64_t page, const void *data);
/* Does the work of store_same() for a page that is not sealed. */
bool integrity_same(const struct integrity *integrity, uint64_t page, const void *data);

/* The same functions for sealed pages, in the same order. seal_load() must have succeeded. integrity_sealer() opens
   the struct seal that the others use, and returns 0 or -ENOMEM. */
int integrity_sealer(const struct integrity *integrity, struct seal **ret_seal);
/* Seals @data into @out, which the caller then writes. */
void integrity_seal(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
/* Opens @data into @out, which may be @data, or NULL for a check without output. If @data does not match, returns
   false and makes @out all zero. */
bool integrity_unseal(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
bool integrity_same_sealed(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data);

/* Returns true if the page at @data is all zero. Stops at the first difference. @data is 8-byte aligned. */
bool integrity_is_zero(const void *data);

#endif
