/*
 * integrity: keeps a checksum and a generation of each page (10 bytes). If pages are sealed (seal.h), it keeps a
 * generation and the record that opens the page (26 bytes).
 *
 * Theory of operation. The generation shows if a page reads as zeroes (never written, or discarded), has contents on
 * donors, or is lost. The checksum is that of the last write. The checksum is keyed with a secret of this store and
 * bound to page and generation. So a donor can lose a page. But it cannot change a page, exchange two pages, or bring
 * back an old page unnoticed. Generations repeat after 32,766 writes of a page. That is harmless: an old copy has
 * another checksum unless it has the same bytes. Both arrays are mapped lazily, so pages that were never written cost
 * nothing.
 *
 * Sealed pages. The seal's record takes the place of the checksum, and is bound to page and generation, too. This
 * page's rules for checksums also hold for records. The key is the beginning of the secret. The counter of seal numbers
 * lies beside the records, so the process that adopts the store goes on counting.
 *
 * Backup. With a backup (backup.h), a page whose last donor goes is not lost but KEPT. A bit beside the generation says
 * that only the local disk has the contents. The checksum shows if a read from that disk is right.
 *
 * After a crash. The arrays may lie in a file (state.h) and outlive their process. A write stores its checksum
 * (integrity_prepare()) and posts. When all replicas have answered, it stores its generation. A process may be killed:
 *
 *   before the checksum    Nothing was posted. The page is as before. If a seal's record is half stored, the page does
 *                          not match.
 *   before the generation  The checksum is that of the new write, for the next generation. Donors may have old, new or
 *                          partly written contents. None of these match under the current generation, so the page reads
 *                          as -EBADMSG until it is written again. A page without contents, or a lost page, stays as it
 *                          was.
 *   after the generation   The write is complete.
 *
 * The next process gives the next write of such a page the same generation again. That is harmless, because two writes
 * with different contents have different checksums. Nothing of the first write can arrive later, because a donor ends
 * its old connections before it admits the next process. A half-done discard has discarded some of its pages.
 *
 * Threads. Any. Each page has at most one writer at a time (the contract of client/store.h). The exception is
 * integrity_lose(), which the control thread may call at any time. write_commit() in far_answer.c shows how a write
 * that completes meanwhile notices this.
 */
#ifndef CLIENT_INTEGRITY_H
#define CLIENT_INTEGRITY_H

#include "client/page/seal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INTEGRITY_SECRET_SIZE 192u
/* The words of each page in the array of sums: a checksum, or a seal's record. */
#define INTEGRITY_SUM_WORDS(sealed) ((sealed) ? 3u : 1u)

/* Generations with a special meaning. */
#define INTEGRITY_NONE 0u
#define INTEGRITY_LOST UINT16_MAX
/* The bit beside a generation that marks a page as KEPT. */
#define INTEGRITY_KEPT 0x8000u

struct integrity {
	uint64_t pages;
	_Atomic uint16_t *generations;
	_Atomic uint64_t *sums;
	_Atomic uint64_t *numbers; /* counter of seal numbers, or NULL if pages are not sealed */
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	bool placed;           /* the caller owns the memory, which is populated before use */
	bool told;             /* a failure to populate the memory was logged */
	bool keeps;            /* there is a backup */
	_Atomic uint64_t kept; /* pages that are KEPT */
};

/* Opens arrays for @pages pages without contents. Returns 0 or -ENOMEM. */
int integrity_open(struct integrity *integrity, uint64_t pages);
int integrity_open_sealed(struct integrity *integrity, uint64_t pages);
/* Opens arrays in the caller's memory, which outlives them: @pages generations and sums. They are as another process
   has left them, or holes of a file, which stay holes until integrity_begin(). @numbers is NULL if pages are not
   sealed. */
void integrity_place(struct integrity *integrity, uint64_t pages, _Atomic uint16_t *generations, _Atomic uint64_t *sums,
		     _Atomic uint64_t *numbers, const uint8_t secret[INTEGRITY_SECRET_SIZE]);
/* Frees the arrays. Also takes a struct that was never opened and is all zero. */
void integrity_close(struct integrity *integrity);

/*
 * integrity_populate() makes the arrays present for these pages (populate.h), if they are in the caller's memory.
 * integrity_begin() does the same before the first use of these pages, and clears their part of the arrays. Both return
 * 0 or -ENOMEM.
 */
int integrity_populate(struct integrity *integrity, uint64_t page, uint64_t count);
int integrity_begin(struct integrity *integrity, uint64_t page, uint64_t count);
/* Returns the size of the arrays for @pages pages, in bytes. */
uint64_t integrity_memory(const struct integrity *integrity, uint64_t pages);
/* Returns how many of these pages are live. */
uint64_t integrity_live(const struct integrity *integrity, uint64_t page, uint64_t count);

/* Returns how many pages of the store are lost. Looks at every page. */
uint64_t integrity_count_lost(const struct integrity *integrity);

enum integrity_kind { INTEGRITY_IS_ZERO, INTEGRITY_IS_LIVE, INTEGRITY_IS_LOST, INTEGRITY_IS_KEPT };
enum integrity_kind integrity_kind(const struct integrity *integrity, uint64_t page);
/* Returns how many pages from @page on are of one kind, 1 .. @max. */
uint32_t integrity_run(const struct integrity *integrity, uint64_t page, uint32_t max);

/* Stores the checksum of @data, which is about to be written to @page. It becomes valid with integrity_commit(). */
void integrity_prepare(struct integrity *integrity, uint64_t page, const void *data);
/* Completes the prepared writes of these pages. Returns how many of the pages were live before. */
uint32_t integrity_commit(struct integrity *integrity, uint64_t page, uint32_t count);
/* Completes writes that only the local disk has. The pages are then KEPT. */
uint32_t integrity_commit_kept(struct integrity *integrity, uint64_t page, uint32_t count);
/* Makes these pages read as zeroes again. Returns how many of them were live. */
uint64_t integrity_forget(struct integrity *integrity, uint64_t page, uint64_t count);
/* Makes live pages lost, or KEPT if there is a backup. Returns how many pages became lost. */
uint64_t integrity_lose(struct integrity *integrity, uint64_t page, uint64_t count);
/* Makes live pages KEPT, because the local disk has them. Returns how many pages were live. */
uint32_t integrity_keep(struct integrity *integrity, uint64_t page, uint32_t count);
/* integrity_restore() makes a KEPT page live again. integrity_give_up() makes it lost. Both return false if the page is
   not KEPT. */
bool integrity_restore(struct integrity *integrity, uint64_t page);
bool integrity_give_up(struct integrity *integrity, uint64_t page);
/* Counts the KEPT pages among these, which another process has left, in `kept`. */
void integrity_count_kept(struct integrity *integrity, uint64_t page, uint64_t count);

/* Returns true if @data has the contents of the last write to @page. The page must be live or KEPT. */
bool integrity_check(const struct integrity *integrity, uint64_t page, const void *data);
/* Returns true if writing @data to @page would change nothing: store_same(). */
bool integrity_same(const struct integrity *integrity, uint64_t page, const void *data);

/* The same functions for sealed pages, in the same order. integrity_sealer() opens the struct seal that they need, and
   returns 0 or -ENOMEM. seal_load() must have been called. */
int integrity_sealer(const struct integrity *integrity, struct seal **ret_seal);
/* Seals @data into @out, which the caller then writes. */
void integrity_seal(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
/* Opens @data into @out, which may be @data, or NULL to only check. If @data does not match, @out is all zero. */
bool integrity_unseal(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
bool integrity_same_sealed(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data);

/* Returns true if a page of STORE_PAGE bytes is all zero. Reads no more than it must. @data is 8-byte aligned. */
bool integrity_is_zero(const void *data);

#endif
