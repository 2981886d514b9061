/*
 * libfarpage: memory of this process that may live on other machines.
 *
 * Theory of operation. farpage_open() connects to donors and reserves a window of address space. Memory mapped in the
 * window behaves like private anonymous memory. But at most `local` bytes of it are on this machine at a time,
 * including farpage's own buffers. The rest is on the donors. Touching a page that is not on this machine fetches it
 * (userfaultfd). Pages are sent out in the background before room runs out. Such memory may be passed to system calls.
 *
 * If a page is lost because its donor died, touching the page raises SIGBUS. All other pages remain usable.
 *
 * Threads: any thread may call any function. farpage_close() may be called only when no other function is running and
 * no memory of the window is in use. Functions return 0 on success and -errno on failure. Outputs are written only on
 * success.
 *
 * A child made by fork() sees the contents from the time of the fork. It may exec or continue, but must not call these
 * functions. A child that continues may fetch only a limited amount of far memory: see docs/architecture.md,
 * "Children".
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
	/* Most bytes on this machine. At least FARPAGE_LOCAL_MIN, and more with `backup` and `encrypt`. */
	size_t local;
	/* Bytes of address space to reserve. 0 means 4 x (free memory of the donors + `local`). */
	size_t window;
	const char *const *donors; /* URIs, such as "tcp://host:7470" */
	unsigned donor_count;
	/* Donors that hold each page, 1 to 3. 0 means 1. With N replicas, N - 1 donors may die without loss. */
	unsigned replicas;
	const char *key_file; /* file with the pre-shared key, or NULL for none */
	/* A donor that cannot be reached for this long, in ms, is lost with its pages. 0 means 600000, or 5000 if pages
	   have another copy (`replicas`, `backup`). */
	unsigned timeout_ms;
	unsigned spin_us;        /* how long to poll for an answer before sleeping, in µs; 0 means 50 */
	unsigned prefetch_pages; /* longest read-ahead in pages; 0 means 64, 1 means no read-ahead */
	/* Rate in bytes/s at which pages at rest are read and checked, on each replica. 0 means never. */
	uint64_t scrub_rate;
	bool encrypt; /* encrypts and authenticates pages before they leave, with a key that stays here */
	/* A block device or a path, where a copy of all pages is kept on a local disk, or NULL for no copy. For a path,
	   farpage makes a file without a name in the same directory. Pages are copied in the background, and read back
	   when no donor has them. */
	const char *backup;
	/* The caller promises that no device writes to this memory. farpage then copies pages that the kernel cannot
	   move: see farpage_open(). */
	bool unsafe_dio;
	/* NULL, or an existing private anonymous mapping of `window` bytes. The mapping becomes the window, and keeps
	   its contents. It stays mapped after farpage_close(). */
	void *reservation;
};

/* The smallest `local` that works, in bytes. */
#define FARPAGE_LOCAL_MIN ((size_t)8 << 20)
/* How much larger `local` must be with `backup`, and with `encrypt`. */
#define FARPAGE_LOCAL_BACKUP ((size_t)4 << 20)
#define FARPAGE_LOCAL_ENCRYPT ((size_t)2 << 20)

/*
 * Opens far memory with @options.
 *
 * A device may be writing to a page (O_DIRECT reads, registered buffers of io_uring or RDMA). Such a page must not
 * leave. Only UFFDIO_MOVE (Linux 6.8) detects such a page. Therefore, without `unsafe_dio`:
 *
 * - On older kernels, farpage_open() fails with -EOPNOTSUPP.
 * - Pages that UFFDIO_MOVE refuses stay on this machine: those of read-only, executable and locked mappings.
 *
 * On failure, one line on standard error tells what went wrong and what to do. Errors:
 *
 * - -EINVAL: an option is out of range
 * - -EOPNOTSUPP: see above
 * - -EPERM: no permission to use userfaultfd
 * - -ENOSYS: a kernel without userfaultfd
 * - -ENOMEM
 * - the error of the first donor that failed: -ECONNREFUSED, -ETIMEDOUT, -EKEYREJECTED, ...
 */
int farpage_open(const struct farpage_options *options, struct farpage **ret_farpage);
/* Closes @farpage: drops all contents, gives all leases back, and frees the window, unless the caller passed in its
   mapping. NULL is allowed. */
void farpage_close(struct farpage *farpage);

/* Maps @length bytes of zeroed far memory, page-aligned, readable and writable. Returns -EINVAL if @length is 0, or
   -ENOMEM if the window is full. */
int farpage_map(struct farpage *farpage, size_t length, void **ret_address);
/* Unmaps whole pages of [@address, @address + @length), which may be a part of a mapping of farpage_map(). @length is
   rounded up to pages. Returns -EINVAL if @address is not page-aligned, or if the range is outside the window. */
int farpage_unmap(struct farpage *farpage, void *address, size_t length);

enum farpage_advice {
	FARPAGE_WILLNEED, /* fetch these pages in the background */
	FARPAGE_PAGEOUT,  /* send these pages out, and wait until they have left */
	FARPAGE_DISCARD,  /* contents are no longer needed: pages read as zeroes and use no memory anywhere */
};
/* Gives advice about [@address, @address + @length). The range is rounded outwards to pages, but inwards for
   FARPAGE_DISCARD. Returns -EINVAL if the range is not inside the window. */
int farpage_advise(struct farpage *farpage, void *address, size_t length, enum farpage_advice advice);

struct farpage_stats {
	uint64_t resident_bytes, resident_peak_bytes; /* including farpage's own buffers and bookkeeping */
	uint64_t far_bytes, far_peak_bytes;           /* contents on donors, or on the backup alone */
	uint64_t faults;                              /* page faults of the program */
	uint64_t faults_far;                          /* faults that waited for a donor */
	uint64_t faults_buffered;                     /* faults on pages on their way out */
	uint64_t fetched_pages, prefetched_pages;
	uint64_t evicted_pages, evicted_clean_pages, evicted_zero_pages;
	uint64_t fault_p50_ns, fault_p99_ns; /* durations of far faults, from arrival at the handler to the wake-up */
	uint64_t stalls;                     /* faults that waited for room */
	uint64_t lost_pages;                 /* pages that raised SIGBUS */
	uint64_t held_bytes;                 /* resident and unable to leave (pinned by a device, read-only ...) */
	uint64_t dropped_pages;              /* dropped without farpage's knowledge; they read as zeroes */
	uint64_t children_stopped; /* forked children without room for their memory: SIGBUS if they touch it */
	uint64_t backup_behind;    /* far pages that are not on the backup yet */
	uint64_t backup_reads;     /* pages read from the backup */
	uint64_t backup_writes;    /* pages written to the backup alone, because no donor had room */
};
int farpage_get_stats(const struct farpage *farpage, struct farpage_stats *ret_stats);

#ifdef __cplusplus
}
#endif
#endif
