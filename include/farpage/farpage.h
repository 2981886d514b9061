/*
 * libfarpage: memory of this process that may live on other machines.
 *
 * Theory of operation. Donors are machines that lend memory (farpage-memserver(8)). farpage_open() connects to them
 * and reserves a window, which is a range of this process's addresses. farpage_map() maps memory in the window. The
 * program uses this memory like private anonymous memory, and may pass it to system calls.
 *
 * At most `local` bytes of the window are on this machine at a time; farpage's own buffers count, too. All other
 * pages are on the donors. A thread that touches such a page waits until a thread of farpage has fetched the page
 * (userfaultfd(2)). Another thread moves pages to the donors in the background, so that memory for fetched pages is
 * free in time.
 *
 * If a donor dies, pages that only this donor had are lost. Touching a lost page raises SIGBUS. All other pages
 * remain usable.
 *
 * Threads: any thread may call any function. Before farpage_close(), all other calls must have returned, and no
 * thread may use memory of the window any more.
 *
 * Results: functions return 0 on success and -errno on failure. They write their outputs (ret_...) only on success.
 *
 * fork(): a child sees the contents of the memory at the time of the fork. The child may call exec or continue, but
 * must not call these functions. A child that continues can fetch far pages up to half of `local`. Touching further far
 * pages raises SIGBUS in the child.
 */
#ifndef FARPAGE_FARPAGE_H
#define FARPAGE_FARPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct farpage;

struct farpage_options {
	/* The most bytes on this machine: at least FARPAGE_LOCAL_MIN, plus FARPAGE_LOCAL_BACKUP with `backup`, plus
	   FARPAGE_LOCAL_ENCRYPT with `encrypt`. */
	size_t local;
	/* Size of the window in bytes. 0 means 3 x (free memory of the donors + `local`). */
	size_t window;
	const char *const *donors; /* URIs, such as "tcp://host:7470" */
	unsigned donor_count;
	/* Number of donors that hold each page, 1 to 3. 0 means 1. With N replicas, N - 1 donors may die and no page
	   is lost. */
	unsigned replicas;
	const char *key_file; /* file with the pre-shared key, or NULL for none */
	/* If a donor cannot be reached for this many ms, its pages are lost. 0 means 600000, or 5000 if pages have
	   another copy (`replicas` > 1, or `backup`). With 0 and no backup, a donor is lost only after 600000 ms if no
	   donor in reach has another copy of its pages. */
	unsigned timeout_ms;
	unsigned spin_us;        /* µs to poll for a donor's answer before the thread sleeps; 0 means 50 */
	unsigned prefetch_pages; /* the most pages fetched ahead of the program; 0 means 64, 1 means none */
	/* farpage can read all far pages in turn, to find and repair corrupt replicas. This is the rate of these reads
	   in bytes/s on each replica. 0 means never. */
	uint64_t scrub_rate;
	bool encrypt; /* encrypt and authenticate pages; the key never leaves this process */
	/* Path for a second copy of all pages on a local disk, or NULL for none. If it is a block device, farpage
	   overwrites the device. Otherwise, farpage creates an unnamed file in the path's directory. farpage copies
	   pages to the disk in the background. It reads a page back when no donor has the page. */
	const char *backup;
	/* The caller promises that no device writes to this memory (O_DIRECT reads, io_uring, RDMA). farpage_open()
	   explains the effect. */
	bool unsafe_dio;
	/* NULL, or an existing private anonymous mapping of `window` bytes, which becomes the window together with
	   its contents. farpage_close() empties this mapping, but does not unmap it. */
	void *reservation;
};

/* The smallest `local` that works, in bytes. */
#define FARPAGE_LOCAL_MIN ((size_t)8 << 20)
/* `backup` and `encrypt` raise this minimum by these numbers of bytes. */
#define FARPAGE_LOCAL_BACKUP ((size_t)4 << 20)
#define FARPAGE_LOCAL_ENCRYPT ((size_t)2 << 20)

/*
 * Opens far memory. @options and its strings may be freed when this returns.
 *
 * A device may write to a page (O_DIRECT reads, registered buffers of io_uring or RDMA). Meanwhile the page must not
 * move to a donor, because the written bytes would be lost. Only UFFDIO_MOVE (Linux 6.8) detects such a page: it
 * refuses to move the page. Therefore, unless `unsafe_dio` is set:
 *
 * - farpage_open() fails with -EOPNOTSUPP on older kernels.
 * - Pages of read-only, executable and locked mappings stay on this machine, because UFFDIO_MOVE refuses them, too.
 *
 * With `unsafe_dio`, farpage copies pages that UFFDIO_MOVE does not move.
 *
 * If `window` is not 0, farpage_open() succeeds even without some of the donors, as long as the others suffice for
 * `replicas`. farpage uses the missing donors once they answer.
 *
 * On failure, one line on standard error says what went wrong and what to do. Errors:
 *
 * - -EINVAL: an option is out of range
 * - -EOPNOTSUPP: the kernel has no UFFDIO_MOVE, and `unsafe_dio` is not set
 * - -EPERM: no permission to use userfaultfd
 * - -ENOSYS: a kernel without userfaultfd
 * - -ENOMEM
 * - the error of the first donor that failed: -ECONNREFUSED, -ETIMEDOUT, -EKEYREJECTED (wrong key), ...
 */
int farpage_open(const struct farpage_options *options, struct farpage **ret_farpage);
/* Closes @farpage: drops all contents, returns the donors' memory to them, and unmaps the window, unless the caller
   passed it in as `reservation`. NULL is allowed. */
void farpage_close(struct farpage *farpage);

/* Maps @length bytes of zeroed far memory, page-aligned, readable and writable. Returns -EINVAL if @length is 0, or
   -ENOMEM if the window has no free range of that length. */
int farpage_map(struct farpage *farpage, size_t length, void **ret_address);
/* Unmaps the pages of [@address, @address + @length), which may be a part of a mapping of farpage_map(). @length is
   rounded up to whole pages. Returns -EINVAL if @address is not page-aligned, or if the range is not inside the
   window. */
int farpage_unmap(struct farpage *farpage, void *address, size_t length);

enum farpage_advice {
	FARPAGE_WILLNEED, /* fetch these pages in the background */
	FARPAGE_PAGEOUT,  /* move these pages to the donors; returns when they have left this machine */
	FARPAGE_DISCARD,  /* drop the contents: pages read as zeroes and use no memory anywhere */
};
/* Gives advice about [@address, @address + @length). Pages that lie only partly in the range are included, except for
   FARPAGE_DISCARD. Returns -EINVAL if the range is not inside the window. */
int farpage_advise(struct farpage *farpage, void *address, size_t length, enum farpage_advice advice);

struct farpage_stats {
	uint64_t resident_bytes, resident_peak_bytes; /* including farpage's own buffers and bookkeeping */
	uint64_t far_bytes, far_peak_bytes;           /* contents on donors, or on the backup if no donor has them */
	uint64_t faults;                              /* page faults of the program in the window */
	uint64_t faults_far;                          /* faults that waited for a donor */
	uint64_t faults_buffered;                     /* faults answered from farpage's buffer of pages just evicted */
	/* The first counts all pages fetched. The second counts pages for which a read-ahead was started. */
	uint64_t fetched_pages, prefetched_pages;
	/* The first counts all pages moved out of the window. The second counts those that needed no write, because
	   the donors had the same contents. The third counts pages of zeroes, which need no copy. */
	uint64_t evicted_pages, evicted_clean_pages, evicted_zero_pages;
	uint64_t fault_p50_ns, fault_p99_ns; /* times of `faults_far`, from the moment when farpage learns of the
						fault */
	uint64_t stalls;                     /* faults that waited because `local` was used up */
	uint64_t lost_pages;                 /* pages that raised SIGBUS */
	uint64_t held_bytes;                 /* pages that must stay on this machine (a device writes to them, ...) */
	/* Pages that the program has emptied by madvise(2) instead of FARPAGE_DISCARD. They read as zeroes. */
	uint64_t dropped_pages;
	uint64_t children_stopped; /* forked children that ran into their limit, and get SIGBUS */
	uint64_t backup_behind;    /* far pages that the backup lacks so far */
	uint64_t backup_reads;     /* pages read from the backup */
	uint64_t backup_writes;    /* pages written to the backup only, because the donors were full */
};
/* Writes the totals since farpage_open(), and the current values. Always returns 0. */
int farpage_get_stats(const struct farpage *farpage, struct farpage_stats *ret_stats);

#ifdef __cplusplus
}
#endif
#endif
