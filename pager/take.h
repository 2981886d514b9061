/*
 * take: takes pages out of the program's reach, so that the program cannot change them any more.
 *
 * Theory of operation. UFFDIO_MOVE moves pages into a landing area, adjacent pages in one call. In a run, a page takes
 * 0.1 to 0.2 us; alone, it takes 1.1 to 1.8 us. MOVE refuses a page that a device holds (O_DIRECT, registered buffers
 * of io_uring or RDMA), because the device would continue to write to the old memory. MOVE also refuses a run that
 * crosses the edge of a mapping, and a mapping whose protection differs from the landing area's. A refused run is
 * halved, down to single pages, to find the refused page.
 *
 * The landing area has two halves. One is writable, the other is writable and executable. A page of an executable
 * mapping moves to the second half. A read-only mapping is made writable for the move, and its pages are
 * write-protected by userfaultfd, so that the program's writes still do not succeed. The window's owner must promise
 * not to change protections meanwhile (`mediated` in window.h). A page that MOVE still refuses is held: it stays where
 * it is. Memory without any access right stays, too, because a read would succeed during the move.
 *
 * With @copies a page can also be write-protected, copied through the kernel, and dropped. Writers wait for userfaultfd
 * meanwhile. User space cannot see if a device holds such a page. So @copies is for programs that never let a device
 * touch their memory. It is the only way on kernels without UFFDIO_MOVE (before Linux 6.8).
 *
 * The evictor owns a struct take.
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
	char *landing;        /* TAKE_LANDING pages, registered with the mover */
	int maps;             /* descriptor for vma.h */
	bool used_executable; /* some page landed in the second half */
	char *scratch;        /* TAKE_MAX pages, for copies */
	bool copies;          /* pages that MOVE refuses may be copied */
	int memory;           /* /proc/self/mem: reads memory without PROT_READ, too */
	int pagemap;          /* /proc/self/pagemap: tells which pages are present */
};

enum take_result {
	TAKE_TAKEN,  /* `data` has the contents; the page is gone from the window */
	TAKE_ABSENT, /* the page was dropped already, and reads as zeroes */
	TAKE_BUSY,   /* the address space is changing; the page has not moved */
	TAKE_HELD,   /* a device or its mapping holds the page, which has not moved */
};

struct taken {
	uint64_t page;
	enum take_result result;
	const char *data; /* valid until take_release() */
};

/* Maps the landing area for take_open(), TAKE_LANDING pages. Returns NULL without memory. Unmap it with munmap(2). */
void *take_landing(void);
/* @landing is the area given to uffd_open(). @copies allows copies. Returns 0, -EOPNOTSUPP if pages can be neither
   moved nor copied, or -errno. */
int take_open(struct take *take, const struct uffd *uffd, struct window *window, void *landing, bool copies);
void take_close(struct take *take);
/* Returns the bytes of memory that stay in use between two batches. Pages in the landing area still count as resident. */
size_t take_memory(const struct take *take);
/* Takes @count (at most TAKE_MAX) pages, whose numbers ascend. Sets `result` and `data` of each. */
void take_pages(struct take *take, struct taken *taken, unsigned count);
/* Frees the memory of the @count pages that were taken last. */
void take_release(struct take *take, unsigned count);

#endif
