/*
 * take: gets pages out of the program's reach, so that nothing it does can change them any more.
 *
 * Theory of operation. UFFDIO_MOVE moves pages into a landing area; pages next to each other go in one call. MOVE
 * refuses a page that a device holds (O_DIRECT, registered buffers of io_uring or RDMA), for the device would go on
 * writing to the frame that has left. It also refuses a run that crosses the edge of a mapping, and every page of a
 * mapping whose protection is not the landing area's. A refused run is halved, down to single pages, to find which page
 * is refused.
 *
 * The landing area has two halves, one writable, one writable and executable; so a page of an executable mapping moves
 * to the second. A mapping that may not be written is made writable for as long as the move takes, with its pages
 * write-protected by userfaultfd, so that a write of the program still does not succeed. The window's owner must
 * promise not to change protections meanwhile (window.h, `mediated`). What MOVE refuses then is held: it stays where it
 * is. So does memory without any access, for a read would succeed meanwhile.
 *
 * With @copies a page is also taken by write-protecting it, copying it through the kernel and dropping it. Writers wait
 * for userfaultfd meanwhile. Nobody in user space can see whether a device holds such a page, so @copies is for
 * programs that never let a device touch their memory. It is the only way on kernels without UFFDIO_MOVE (before 6.8).
 *
 * Owned by the evictor.
 */
#ifndef PAGER_TAKE_H
#define PAGER_TAKE_H

#include "pager/uffd.h"
#include "pager/window.h"
#include <stdbool.h>
#include <stdint.h>

#define TAKE_MAX 64
#define TAKE_LANDING (2 * TAKE_MAX)

struct take {
	const struct uffd *uffd;
	struct window *window;
	char *landing;        /* TAKE_LANDING pages, registered with the mover */
	int maps;             /* for vma.h */
	bool used_executable; /* something landed in the second half */
	char *scratch;        /* TAKE_MAX pages, for copies */
	bool copies;          /* what MOVE refuses may be copied */
	int memory;           /* /proc/self/mem: reads what the program may not */
	int pagemap;          /* /proc/self/pagemap: tells what is there */
};

enum take_result {
	TAKE_TAKEN,  /* data is its contents, the page is gone from the window */
	TAKE_ABSENT, /* there was none: it had been dropped, and reads as zeroes */
	TAKE_BUSY,   /* not now: something is changing the address space; it is where it was */
	TAKE_HELD,   /* a device or its mapping holds it; it is where it was */
};

struct taken {
	uint64_t page;
	enum take_result result;
	const char *data; /* valid until take_release() */
};

/* TAKE_LANDING pages to land in, as take_open wants them; NULL: no memory. Unmap them with munmap(2). */
void *take_landing(void);
/* @landing: as given to uffd_open. @copies: see above. -EOPNOTSUPP: nothing can move or be copied. -errno. */
int take_open(struct take *take, const struct uffd *uffd, struct window *window, void *landing, bool copies);
void take_close(struct take *take);
/* Takes @count (at most TAKE_MAX) pages, whose numbers ascend. */
void take_pages(struct take *take, struct taken *taken, unsigned count);
/* Frees the memory of what was taken. */
void take_release(struct take *take, unsigned count);

#endif
