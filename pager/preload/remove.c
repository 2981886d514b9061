/*
 * remove: removes pages from a forked child's memory when the parent's pager asks for it (pager/reclaim.h).
 *
 * A page that is write-protected is a clean copy, and is dropped. Any other page is the child's own. It is moved out of
 * the child's reach (take.h), like the evictor does with the program's pages, and its contents are sent to the pager.
 *
 * The child maps no memory and does not fork meanwhile (remove_lock()). So new memory of the child is never taken for
 * an old page, and a process that the child forks has a page or finds its contents sent.
 *
 * All that this needs is opened during the fork. Later the process may have another user, another root directory, or a
 * lower limit of descriptors.
 *
 * Only the watcher calls remove_pages() (child.c).
 */
#include "pager/bitmap.h"
#include "pager/pagemap.h"
#include "pager/pass.h"
#include "pager/preload/preload.h"
#include "pager/reclaim.h"
#include "pager/take.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LANDING_BYTES ((size_t)TAKE_LANDING * WINDOW_PAGE)

/* How this process removes pages. */
static struct {
	int pagemap; /* or -1 */
	int error;   /* -errno if pages cannot be moved out */
	void *landing;
	struct uffd uffd;
	struct window window;
	struct take take;
} mover = {.pagemap = -1, .uffd = {.fd = -1, .mover = -1}, .take = {.maps = -1, .memory = -1, .pagemap = -1}};

/* Held while new memory is mapped, while pages are removed, while the process stops being a CHILD, and during a
   fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void remove_lock(void)
{
	pthread_mutex_lock(&lock);
}

void remove_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* Returns 0, or -errno if this process cannot move pages: the kernel lacks UFFDIO_MOVE, or the process may not use
   userfaultfd. */
static int open_mover(int uffd)
{
	mover.uffd = (struct uffd){.fd = uffd, .mover = -1};
	/* The protections of this process's mappings change without the window's lock. So pages that must first be made
	   writable are not moved. */
	mover.window = (struct window){.base = preload.window.base, .length = preload.window.length};
	pthread_mutex_init(&mover.window.protect_lock, NULL);
	mover.landing = take_landing();
	if (!mover.landing)
		return -ENOMEM;
	mover.uffd.mover = uffd_open_mover(mover.landing, LANDING_BYTES);
	if (mover.uffd.mover < 0)
		return mover.uffd.mover;
	return take_open(&mover.take, &mover.uffd, &mover.window, mover.landing, false);
}

void remove_open(int uffd)
{
	mover.pagemap = pagemap_open();
	mover.error = open_mover(uffd);
}

bool remove_is_possible(void)
{
	return served_uffd() >= 0 && mover.pagemap >= 0 && mover.error == 0;
}

void remove_close(void)
{
	if (mover.pagemap >= 0)
		close(mover.pagemap);
	if (mover.uffd.mover >= 0)
		close(mover.uffd.mover);
	if (mover.landing)
		munmap(mover.landing, LANDING_BYTES);
	mover.pagemap = mover.uffd.mover = -1;
	mover.landing = NULL;
	take_close(&mover.take);
}

void remove_after_in_child(void)
{
	mover.landing = mover.take.scratch = NULL; /* a child does not inherit these mappings */
	remove_close();
}

/* Drops those of @count adjacent pages that are write-protected. Returns a word with a bit for each dropped page. */
static uint64_t drop_adjacent(char *start, unsigned count)
{
	bool is_protected[RECLAIM_MAX];
	uint64_t dropped = 0;

	if (pagemap_protected(mover.pagemap, start, count, is_protected) < 0)
		return 0;
	for (unsigned i = 0, run; i < count; i += run + 1) {
		for (run = 0; i + run < count && is_protected[i + run]; run++)
			;
		if (run && kernel_madvise(start + i * WINDOW_PAGE, run * WINDOW_PAGE, MADV_DONTNEED) == 0)
			bitmap_set(&dropped, i, run, true);
	}
	return dropped;
}

/* Sends a message, and waits while the socket is full. Gives up when the pager's process has ended. */
static void tell(int socket, int pager, enum pass what, const struct pass_message *message)
{
	struct pollfd wanted[] = {{.fd = socket, .events = POLLOUT}, {.fd = pager, .events = POLLIN}};

	while (pass_send(socket, what, message) == -EAGAIN && !wanted[1].revents)
		poll(wanted, 2, -1);
}

/* Returns true if the memory at @page is registered with @uffd. The child may have replaced it by other memory. */
static bool is_served(const struct uffd *uffd, char *page)
{
	return uffd_protect(uffd, page, WINDOW_PAGE, false) != -ENOENT;
}

/* Moves the pages out that were not dropped, and sends their contents. */
static void move_out(const struct pass_message *request, int socket, int pager, struct pass_removed *removed)
{
	struct taken taken[RECLAIM_MOVES];
	unsigned numbers[RECLAIM_MOVES] = {0}, count = 0;
	struct pass_message contents = {.fd = -1, .count = PASS_WORDS};

	for (unsigned i = 0; i < request->count && count < RECLAIM_MOVES; i++) {
		char *page = (char *)(uintptr_t)request->words[i];

		if (removed->dropped >> i & 1)
			continue;
		if (!is_served(&mover.uffd, page)) {
			removed->gone |= UINT64_C(1) << i;
			continue;
		}
		numbers[count] = i;
		taken[count++] = (struct taken){.page = window_page(&preload.window, page)};
	}
	take_pages(&mover.take, taken, count);
	for (unsigned i = 0; i < count; i++) {
		const uint64_t bit = UINT64_C(1) << numbers[i];

		if (taken[i].result == TAKE_TAKEN) {
			removed->moved |= bit;
			memcpy(contents.words, taken[i].data, WINDOW_PAGE);
			tell(socket, pager, PASS_CONTENTS, &contents);
		} else if (taken[i].result == TAKE_ABSENT) {
			removed->gone |= bit;
		} else if (taken[i].result == TAKE_BUSY) {
			removed->busy |= bit;
		}
	}
	take_release(&mover.take, count);
}

void remove_pages(const struct pass_message *request, int socket, int pager)
{
	struct pass_message message = {.fd = -1};
	struct pass_removed removed = {0};

	if (mover.pagemap < 0 || request->count > RECLAIM_MAX) {
		tell(socket, pager, PASS_REMOVED, &message);
		return;
	}
	remove_lock();
	for (unsigned i = 0, run; i < request->count; i += run) {
		for (run = 1;
		     i + run < request->count && request->words[i + run] == request->words[i] + run * WINDOW_PAGE;
		     run++)
			;
		removed.dropped |= drop_adjacent((char *)(uintptr_t)request->words[i], run) << i;
	}
	if ((unsigned)__builtin_popcountll(removed.dropped) < request->count && mover.error == 0)
		move_out(request, socket, pager, &removed);
	memcpy(message.words, &removed, sizeof removed);
	message.count = sizeof removed / sizeof message.words[0];
	tell(socket, pager, PASS_REMOVED, &message);
	remove_unlock();
}
