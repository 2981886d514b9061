/*
 * integrity: what the client knows of every page's contents, in 10 bytes a page: a checksum and a generation; in 26,
 * where pages are sealed (seal.h): the record that opens it, and a generation.
 *
 * Theory of operation. The generation says whether a page reads as zeroes (never written, or discarded), has contents
 * on donors, or is lost with them. The checksum is that of the last write, keyed with a secret of this store and bound
 * to page and generation: a donor can lose a page but cannot change it, swap it with another or bring back an old one.
 * Generations come round
 * after 32,766 writes of a page, which is harmless: an old copy still has another checksum unless it has the same
 * bytes. Both arrays are mapped lazily: pages of the store that were never written cost nothing.
 *
 * Sealed pages. In place of the checksum there is the seal's record, bound to page and generation, too; what is said
 * here of checksums holds for it. Its key is the beginning of the secret. Its numbers are counted beside the records,
 * so that they go on where those of a process that ended have stopped.
 * Where there is a backup (backup.h) pages whose last donor goes are not lost but KEPT: a bit beside the generation
 * says that their contents are on the local disk alone. The checksum says whether what is read there is theirs.
 *
 * After a crash. The arrays may lie in a file (state.h) and outlive their process. A write stores its checksum
 * (integrity_prepare), posts, and when all replicas have answered stores its generation. Killed in between:
 *
 *   before the checksum    nothing was posted: the page is what it was; with a part of a seal's record it does not
 * match. before the generation  the checksum is the new write's, under the next generation: whatever the donors have,
 * old, new or partly written, does not match under the generation that is, and reads as -EBADMSG until the page is
 * written again. A page that had no contents, or was lost, is that still. after it               the write is complete.
 *
 * The next process gives such a page's next write the same generation once more. That is harmless, as coming round is:
 * what the two writes left differs, and so do their checksums; and nothing of the first can arrive later, for the donor
 * has ended its connections before it lets the next process in. A discard half done has discarded some of its pages.
 *
 * Threads. Any. Of one page there is one writer at a time (the contract of include/farpage/store.h), except that
 * integrity_lose() may come at any time from the control thread; client/far_queue.c tells how a write that completes
 * meanwhile finds out.
 */
#ifndef CLIENT_INTEGRITY_H
#define CLIENT_INTEGRITY_H

#include "client/seal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INTEGRITY_SECRET_SIZE 192u
/* Words of a checksum, or of a seal's record, in the array of them. */
#define INTEGRITY_SUM_WORDS(sealed) ((sealed) ? 3u : 1u)

/* Two generations have a meaning of their own. */
#define INTEGRITY_NONE 0u
#define INTEGRITY_LOST UINT16_MAX
/* Beside a generation. */
#define INTEGRITY_KEPT 0x8000u

struct integrity {
	uint64_t pages;
	_Atomic uint16_t *generations;
	_Atomic uint64_t *sums;
	_Atomic uint64_t *numbers; /* where the seals' are counted; NULL: pages are not sealed */
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	bool placed;           /* the memory is somebody else's, and is populated before it is used */
	bool told;             /* that it could not be */
	bool keeps;            /* there is a backup */
	_Atomic uint64_t kept; /* pages */
};

/* For @pages pages, all without contents. -ENOMEM. */
int integrity_open(struct integrity *integrity, uint64_t pages);
int integrity_open_sealed(struct integrity *integrity, uint64_t pages);
/* The same in the caller's memory, which outlives it: @pages generations and checksums, as another process has left
   them, or all zero, in holes of a file that nothing fills before integrity_begin(). @numbers: they are sealed; or
   NULL.
 */
void integrity_place(struct integrity *integrity, uint64_t pages, _Atomic uint16_t *generations, _Atomic uint64_t *sums,
		     _Atomic uint64_t *numbers, const uint8_t secret[INTEGRITY_SECRET_SIZE]);
/* Takes one that was never opened but is all zero. */
void integrity_close(struct integrity *integrity);

/*
 * In the caller's memory: makes what is kept of these pages present (populate.h); integrity_begin() does so before
 * their first use, and they have no contents then, whatever was there. -ENOMEM. In memory of its own: nothing.
 */
int integrity_populate(struct integrity *integrity, uint64_t page, uint64_t count);
int integrity_begin(struct integrity *integrity, uint64_t page, uint64_t count);
/* Bytes that are kept of so many pages. */
uint64_t integrity_memory(const struct integrity *integrity, uint64_t pages);
/* How many of these pages are live. */
uint64_t integrity_live(const struct integrity *integrity, uint64_t page, uint64_t count);

/* How many pages are lost. Looks at all of them. */
uint64_t integrity_count_lost(const struct integrity *integrity);

enum integrity_kind { INTEGRITY_IS_ZERO, INTEGRITY_IS_LIVE, INTEGRITY_IS_LOST, INTEGRITY_IS_KEPT };
enum integrity_kind integrity_kind(const struct integrity *integrity, uint64_t page);
/* How many pages from @page on are of the same kind, 1 .. @max. */
uint32_t integrity_run(const struct integrity *integrity, uint64_t page, uint32_t max);

/* A write of @data to @page is about to go out: remembers its checksum. It counts from integrity_commit() on. */
void integrity_prepare(struct integrity *integrity, uint64_t page, const void *data);
/* The prepared writes of these pages are complete. Returns how many of them were live before. */
uint32_t integrity_commit(struct integrity *integrity, uint64_t page, uint32_t count);
/* The same of writes to the local disk alone: these pages are kept. */
uint32_t integrity_commit_kept(struct integrity *integrity, uint64_t page, uint32_t count);
/* These pages read as zeroes again. Returns how many of them were live. */
uint64_t integrity_forget(struct integrity *integrity, uint64_t page, uint64_t count);
/* What was live of these pages is lost, or kept. Returns how many are lost. */
uint64_t integrity_lose(struct integrity *integrity, uint64_t page, uint64_t count);
/* What is live of these pages is on the local disk: it is kept. Returns how many were live. */
uint32_t integrity_keep(struct integrity *integrity, uint64_t page, uint32_t count);
/* A page that is kept is live again; it is lost. False: it is not kept. */
bool integrity_restore(struct integrity *integrity, uint64_t page);
bool integrity_give_up(struct integrity *integrity, uint64_t page);
/* Another process has left these pages: those that are kept are counted. */
void integrity_count_kept(struct integrity *integrity, uint64_t page, uint64_t count);

/* Whether @data is what the last write left in @page, which is live or kept. */
bool integrity_check(const struct integrity *integrity, uint64_t page, const void *data);
/* Whether writing @data to @page would change nothing: store_same(). */
bool integrity_same(const struct integrity *integrity, uint64_t page, const void *data);

/* The same where pages are sealed, in the order of those above. What seals and opens these pages; seal_load() was
   called. -ENOMEM. */
int integrity_sealer(const struct integrity *integrity, struct seal **ret_seal);
/* @out is what goes out. */
void integrity_seal(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
/* Opens @data into @out, which may be the same, or NULL: nowhere. Of one that does not match nothing is left there. */
bool integrity_unseal(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out);
bool integrity_same_sealed(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data);

/* Whether a page of STORE_PAGE bytes is all zero; looks no further than it must. @data is 8-byte aligned. */
bool integrity_is_zero(const void *data);

#endif
