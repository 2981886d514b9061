/*
 * libfarpage: memory of this process that may live on other machines.
 *
 * Theory of operation. farpage_open() connects to donors and reserves a window of address space. Memory mapped in
 * the window behaves like any private anonymous memory, but at most `local` bytes of it (farpage's own buffers
 * included) are on this machine at a time; the rest is on the donors. Touching a page that is not here fetches it
 * (userfaultfd); pages leave in the background before room runs out. System calls may be given such memory.
 *
 * If a page cannot be had any more (its donor died), touching it raises SIGBUS; other pages go on.
 *
 * Threads: every function may be called from any thread; farpage_close() once no other is running and no memory of
 * the window is in use. All return 0 on success and -errno on failure; outputs are written only on success.
 *
 * A child made by fork() sees its memory as it was at the fork, and may exec or go on; it must not call these
 * functions. How much a child that goes on may pull in is bounded: see docs/architecture.md, "Children".
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
	size_t local;              /* bytes on this machine at most; at least FARPAGE_LOCAL_MIN */
	size_t window;             /* bytes of address space to reserve; 0: 4 x (what the donors have free + local) */
	const char *const *donors; /* "tcp://host:7470", ... */
	unsigned donor_count;
	unsigned replicas;       /* donors that hold each page, 1 .. 3; 0: 1. With N of them N - 1 donors may die */
	const char *key_file;    /* pre-shared key, or NULL */
	unsigned timeout_ms;     /* a donor out of reach for this long is lost, with its pages; 0: 600000, or 5000 where
				    there is another copy (replicas, backup) */
	unsigned spin_us;        /* how long to poll for an answer before sleeping; 0: the default, 50 */
	unsigned prefetch_pages; /* longest read-ahead, pages; 0: the default, 64; 1: none */
	uint64_t scrub_rate;     /* bytes/s of pages at rest that are read and checked, each replica; 0: none */
	bool encrypt;            /* pages leave encrypted and authenticated, with a key that stays in this process */
	const char *backup;      /* NULL, or a file (made, without a name, beside it) or block device on a local disk:
				    all pages are copied there behind the writes' back, and read when no donor has them */
	bool unsafe_dio;         /* the caller promises that no device writes to this memory: pages are copied
				    out where the kernel cannot move them. See farpage_open */
	void *reservation;       /* NULL, or an existing private anonymous mapping of `window` bytes to use as the
				    window, contents and all; it stays mapped after farpage_close() */
};

/* The smallest local budget that works, bytes. */
#define FARPAGE_LOCAL_MIN ((size_t)8 << 20)
/* So much more with a backup, and with encryption. */
#define FARPAGE_LOCAL_BACKUP ((size_t)4 << 20)
#define FARPAGE_LOCAL_ENCRYPT ((size_t)2 << 20)

/*
 * Memory that a device may be writing to (O_DIRECT reads, registered buffers of io_uring or RDMA) must not leave. Only
 * UFFDIO_MOVE (Linux 6.8) can tell. So without `unsafe_dio` older kernels are refused (-EOPNOTSUPP), and memory that
 * MOVE does not take stays here: mappings that are read-only, executable or locked.
 *
 * -EINVAL (an option out of range), -EPERM (no right to userfaultfd), -ENOSYS (kernel without it), -ENOMEM, or what
 * the first donor that could not be reached said: -ECONNREFUSED, -ETIMEDOUT, -EKEYREJECTED, ... One line on
 * standard error (farpage_set_log) says which and what to do.
 */
int farpage_open(const struct farpage_options *options, struct farpage **ret_farpage);
/* Drops all contents, gives every lease back, frees the window (unless it was handed in). Takes NULL. */
void farpage_close(struct farpage *farpage);

/* Maps @length bytes of zeroed far memory, page-aligned, readable and writable. -ENOMEM: the window is full. */
int farpage_map(struct farpage *farpage, size_t length, void **ret_address);
/* Unmaps whole pages of [@address, @address + @length), any part of what farpage_map gave. */
int farpage_unmap(struct farpage *farpage, void *address, size_t length);

enum farpage_advice {
	FARPAGE_WILLNEED, /* fetch these pages in the background */
	FARPAGE_PAGEOUT,  /* send these pages out now; returns when they have left */
	FARPAGE_DISCARD,  /* contents no longer needed: they read as zeroes, and cost nothing anywhere */
};
/* -EINVAL: outside the window. The range is rounded: outwards, but inwards for DISCARD. */
int farpage_advise(struct farpage *farpage, void *address, size_t length, enum farpage_advice advice);

struct farpage_stats {
	uint64_t resident_bytes, resident_peak_bytes; /* with farpage's own buffers and bookkeeping */
	uint64_t far_bytes, far_peak_bytes;           /* contents on donors */
	uint64_t faults;                              /* by the program */
	uint64_t faults_far;                          /* of them, those that waited for a donor */
	uint64_t faults_buffered;                     /* of them, those answered from a page on its way out */
	uint64_t fetched_pages, prefetched_pages;
	uint64_t evicted_pages, evicted_clean_pages, evicted_zero_pages;
	uint64_t fault_p50_ns, fault_p99_ns; /* from the fault's arrival at the handler to the wake-up, far faults */
	uint64_t stalls;                     /* faults that had to wait for room */
	uint64_t lost_pages;                 /* pages that raised SIGBUS */
	uint64_t held_bytes;                 /* resident, and cannot leave: pinned by a device, read-only, executable */
	uint64_t dropped_pages; /* dropped by the program in a way that farpage did not see: read as zeroes */
	uint64_t
	    children_stopped;   /* forked ones, for whose memory there was no room: they get SIGBUS if they touch it */
	uint64_t backup_behind; /* far pages that are not on the backup yet */
	uint64_t backup_reads;  /* pages read there */
	uint64_t backup_writes; /* pages written there alone, for no donor had room */
};
int farpage_get_stats(const struct farpage *farpage, struct farpage_stats *ret_stats);

#ifdef __cplusplus
}
#endif
#endif
