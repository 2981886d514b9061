/*
 * take: moves pages out of the program's reach, so that the program can no longer change them.
 *
 * Theory of operation. UFFDIO_MOVE moves pages into a landing area, a run of adjacent pages in one call. Moving a page
 * takes 0.1 to 0.2 us in a run, and 1.1 to 1.8 us alone. UFFDIO_MOVE refuses:
 * - a page that a device holds (O_DIRECT, registered buffers of io_uring or RDMA), because the device would continue
 *   to use the old memory
 * - a run that lies in two mappings
 * - a mapping whose protection differs from that of the landing area
 *
 * take_pages() tries a refused run again in halves, down to single pages, to find the page that is the reason.
 *
 * The landing area has two halves: the first is readable and writable, the second executable, too. Pages of an
 * executable mapping move to the second half. Pages of a read-only mapping are first write-protected by
 * userfaultfd. Then mprotect(2) makes the mapping writable for the move, and userfaultfd makes writers wait. This
 * works only if nobody else changes the protections meanwhile (`mediated` in window.h). Pages without read access
 * are not moved, because the program could read them while they are writable. A page that cannot be moved is
 * *held*: it stays in the program.
 *
 * With @copies a refused page is write-protected, copied by the kernel, and dropped. A writer waits until the page
 * is dropped, and then faults. But user space cannot see whether a device holds the page. So @copies is only for
 * programs that never let a device access their memory. Kernels without UFFDIO_MOVE (before Linux 6.8) need @copies.
 *
 * Only one thread uses a struct take: the evictor, or the watcher of a forked child (preload/remove.c).
 */
#ifndef PAGER_TAKE_H
#define PAGER_TAKE_H

#include "pager/uffd.h"
#include "pager/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAKE_MAX 64
#define TAKE_LANDING (2 * TAKE_MAX)

struct take {
	const struct uffd *uffd;
	struct window *window;
	char *landing;        /* TAKE_LANDING pages, registered as the target of UFFDIO_MOVE */
	int maps;             /* descriptor of vma_query() */
	bool used_executable; /* a page is in the second half */
	char *scratch;        /* TAKE_MAX pages, the targets of copies */
	bool copies;          /* pages may be copied */
	int memory;           /* /proc/self/mem; also reads memory without PROT_READ */
	int pagemap;          /* /proc/self/pagemap */
};

enum take_result {
	TAKE_TAKEN,  /* `data` has the contents; the window has no page there */
	TAKE_ABSENT, /* the window had no page there, so the page reads as zeroes */
	TAKE_BUSY,   /* not moved, because the address space is changing; try again */
	TAKE_HELD,   /* not moved, because a device or the page's mapping holds it */
};

struct taken {
	uint64_t page;
	bool proven; /* the page was in the proven queue (residents.h) */
	enum take_result result;
	const char *data; /* valid until take_release() */
};

/* Maps the landing area: TAKE_LANDING pages. Returns NULL if there is no memory. The caller unmaps it. */
void *take_landing(void);
/* @landing is the area that uffd_open() was given. @copies allows copies. Returns 0, -EOPNOTSUPP if pages can be
   neither moved nor copied, or another -errno. */
int take_open(struct take *take, const struct uffd *uffd, struct window *window, void *landing, bool copies);
void take_close(struct take *take);
/* Returns the bytes of memory that are used between two batches. Pages in the landing area are not included, because
   they still count as resident. */
size_t take_memory(const struct take *take);
/* Moves @count pages, at most TAKE_MAX, in ascending order. Sets `result` and `data` of each. */
void take_pages(struct take *take, struct taken *taken, unsigned count);
/* Copies the contents of those of @count pages that were taken, each to its page in @to. The kernel copies them
   (process_vm_readv(2)): a page that has just been moved is in no TLB, and the kernel reaches it without its new
   address. In a virtual machine with shadow page tables, reading each page at its new address took 8 us longer. */
void take_copy(const struct taken *taken, char *const *to, unsigned count);
/* Frees the contents of the last take_pages(), which had @count pages. */
void take_release(struct take *take, unsigned count);

#endif
