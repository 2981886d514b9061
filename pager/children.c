#include "pager/children.h"

#include "common/descriptors.h"
#include "common/log.h"
#include "pager/bitmap.h"
#include "pager/pass.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/* The data of an event of a child: 1 + the number of its entry, shifted, and a bit that is set for its socket. */
#define EVENT_SHIFT 32
#define EVENT_SOCKET UINT64_C(1)

/* Pages are taken back from a child that has at most so much room left in its budget. */
#define RECLAIM_BEFORE (4 * (int64_t)RECLAIM_MAX)

static const struct child unused_child = {.uffd = -1, .socket = -1, .announced = -1};
static const char zeroes[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

/* --- Entries ---------------------------------------------------------------------------------------------------- */

/* The tables of a child: the contents that it sends, the bitmaps of reclaim.h, its new memory, and its snapshot. */
static size_t tables_bytes(uint64_t pages)
{
	return RECLAIM_MOVES * STORE_PAGE + 3 * bitmap_bytes(pages) + snapshot_bytes(pages);
}

static int map_tables(struct child *child, struct shadows *shadows, uint64_t pages)
{
	const size_t bytes = tables_bytes(pages), bitmap = bitmap_bytes(pages);
	char *tables = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (tables == MAP_FAILED)
		return -errno;
	madvise(tables, bytes, MADV_DONTFORK);
	child->reclaim.contents = tables;
	tables += RECLAIM_MOVES * STORE_PAGE;
	child->reclaim.clean = (uint64_t *)(void *)tables;
	child->reclaim.own = (uint64_t *)(void *)(tables + bitmap);
	child->mapped = (uint64_t *)(void *)(tables + 2 * bitmap);
	child->capacity = pages;
	snapshot_open(&child->snapshot, shadows, pages, tables + 3 * bitmap);
	return 0;
}

static void unmap_tables(struct child *child)
{
	munmap(child->reclaim.contents, tables_bytes(child->capacity));
}

/* Returns the bytes of memory that a part of a child's tables uses. */
static uint64_t part_memory(const void *part, uint64_t bytes)
{
	const uintptr_t start = (uintptr_t)part / STORE_PAGE * STORE_PAGE;

	return pages_table_memory((void *)start, (uintptr_t)part + bytes - start);
}

void children_measure(struct child *child)
{
	const uint64_t pages = child->snapshot.pages, bitmap = bitmap_bytes(pages);

	if (child->uffd < 0)
		return;
	child->tables = part_memory(child->reclaim.contents, RECLAIM_MOVES * STORE_PAGE) +
			part_memory(child->reclaim.clean, bitmap) + part_memory(child->reclaim.own, bitmap) +
			part_memory(child->mapped, bitmap) + part_memory(child->snapshot.far, bitmap) +
			part_memory(child->snapshot.homes, pages * sizeof *child->snapshot.homes);
}

uint64_t children_memory(struct children *children)
{
	uint64_t bytes = 0;

	if (atomic_load(&children->count) == 0)
		return 0;
	pthread_mutex_lock(&children->lock);
	if (++children->measured >= children->top)
		children->measured = 0;
	if (children->top)
		children_measure(&children->entries[children->measured]);
	for (unsigned i = 0; i < children->top; i++)
		if (children->entries[i].uffd >= 0)
			bytes += children->entries[i].tables;
	pthread_mutex_unlock(&children->lock);
	return bytes;
}

void children_open(struct children *children, struct core *core)
{
	/* The entries stay untouched, so that those of children that never live use no memory. */
	memset(children, 0, offsetof(struct children, entries));
	children->core = core;
	children->epoll = children->spare = -1;
	atomic_store(&children->announced, -1);
	pthread_mutex_init(&children->lock, NULL);
}

void children_count(struct children *children, struct child *child, int64_t change)
{
	struct core *core = children->core;

	child->given += change;
	core_count(&core->counters->children_pages, (uint64_t)change);
	if (change > 0)
		core_note_local(core, (uint64_t)child->given * STORE_PAGE);
}

static void close_socket(struct children *children, struct child *child)
{
	if (child->socket < 0)
		return;
	/* close() alone would not do this, because a sibling that was forked later has the socket, too. */
	epoll_ctl(children->epoll, EPOLL_CTL_DEL, child->socket, NULL);
	close(child->socket);
	child->socket = -1;
}

static void forget(struct children *children, struct child *child)
{
	epoll_ctl(children->epoll, EPOLL_CTL_DEL, child->uffd, NULL); /* as in close_socket() */
	close(child->uffd);
	close_socket(children, child);
	if (child->announced >= 0)
		close(child->announced);
	reclaim_abandon(children, child);
	children_count(children, child, -child->given);
	snapshot_close(&child->snapshot);
	unmap_tables(child);
	*child = unused_child;
	while (children->top && children->entries[children->top - 1].uffd < 0)
		children->top--;
	atomic_fetch_sub(&children->count, 1);
}

void children_close(struct children *children)
{
	if (!children->core)
		return;
	for (unsigned i = children->top; i-- > 0;)
		if (children->entries[i].uffd >= 0)
			forget(children, &children->entries[i]);
	if (children->spare >= 0)
		close(children->spare);
	pthread_mutex_destroy(&children->lock);
	children->core = NULL;
}

/* Has the handler wait for @fd, which belongs to @child. @kind is EVENT_SOCKET, or 0 for the userfaultfd. Returns 0 or
   -errno. */
static int watch(struct children *children, const struct child *child, int fd, uint64_t kind)
{
	struct epoll_event event = {.events = EPOLLIN,
				    .data.u64 = (uint64_t)(child - children->entries + 1) << EVENT_SHIFT | kind};

	return epoll_ctl(children->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

struct child *children_of_event(struct children *children, uint64_t data, bool *ret_socket)
{
	*ret_socket = data & EVENT_SOCKET;
	return data >> EVENT_SHIFT ? &children->entries[(data >> EVENT_SHIFT) - 1] : NULL;
}

static struct child *free_entry(struct children *children)
{
	unsigned i = 0;

	while (i < children->top && children->entries[i].uffd >= 0)
		i++;
	if (i == CHILDREN_MAX)
		return NULL;
	if (i == children->top) {
		children->entries[i] = unused_child;
		children->top++;
	}
	return &children->entries[i];
}

int children_enter(struct children *children, uint64_t pages, int uffd, struct child **ret_child)
{
	struct child new = unused_child, *child = free_entry(children);

	if (!child)
		return -EUSERS;
	int error = map_tables(&new, &children->core->shadows, children->core->window->length / STORE_PAGE);
	if (error)
		return error;
	new.snapshot.pages = pages;
	error = watch(children, child, uffd, 0);
	if (error) {
		unmap_tables(&new);
		return error;
	}
	new.uffd = uffd;
	new.born = ++children->added;
	*child = new;
	atomic_fetch_add(&children->count, 1);
	*ret_child = child;
	return 0;
}

void children_connect(struct children *children, struct child *child, int socket)
{
	child->socket = socket;
	if (watch(children, child, socket, EVENT_SOCKET))
		child->reclaim.mute = true;
}

/* Returns true if no page of the word of @page is far, a clean copy or an own page. */
static bool is_blank(const struct child *child, uint64_t page)
{
	const uint64_t word = page / BITMAP_WORD;

	return page % BITMAP_WORD == 0 &&
	       !(child->snapshot.far[word] | child->reclaim.clean[word] | child->reclaim.own[word]);
}

static void forget_pages(struct children *children, struct child *child, uint64_t first, uint64_t count)
{
	const uint64_t end = first + count < child->snapshot.pages ? first + count : child->snapshot.pages;
	int64_t removed = 0;

	reclaim_forget_asked(child, first, count);
	for (uint64_t page = first; page < end; page++) {
		if (is_blank(child, page)) {
			page += BITMAP_WORD - 1;
			continue;
		}
		removed += reclaim_forget(child, page);
		snapshot_remove(&child->snapshot, page);
	}
	children_count(children, child, -removed);
	if (removed)
		core_settled(children->core);
}

/* Handles a PASS_FORGET of @child. Nothing is known of pages outside the window. */
static void hear_forget(struct children *children, struct child *child, const struct pass_message *message)
{
	const struct pass_message answer = {.fd = -1};
	struct pass_forget forget;

	if (message->count != sizeof forget / sizeof(uint64_t))
		return;
	memcpy(&forget, message->words, sizeof forget);
	const uint64_t first = core_page(children->core, forget.address), count = forget.bytes / STORE_PAGE;
	if (first < child->capacity && count <= child->capacity - first) {
		forget_pages(children, child, first, count);
		bitmap_set(child->mapped, first, count, forget.is_new);
	}
	if (forget.is_new)
		pass_send(child->socket, PASS_FORGOTTEN, &answer);
}

void children_hear(struct children *children, struct child *child)
{
	struct pass_message message;
	int what = -EAGAIN;
	uint64_t before = descriptors_raise_briefly(); /* a message may come with a descriptor */

	while (child->socket >= 0 && (what = pass_receive(child->socket, &message)) > 0) {
		if (what == PASS_FORGET)
			hear_forget(children, child, &message);
		else if (what == PASS_LOCAL)
			child->local = true;
		else
			reclaim_hear(children, child, (enum pass)what, &message);
		if (message.fd < 0)
			continue;
		/* A fork that was announced before may have failed. */
		if (child->announced >= 0)
			close(child->announced);
		child->announced = message.fd;
	}
	descriptors_restore(before);
	if (child->socket >= 0 && what != -EAGAIN) {
		children->hung_up = true;
		close_socket(children, child);
		reclaim_abandon(children, child);
	}
}

/* --- Ends ------------------------------------------------------------------------------------------------------- */

/* Discards contents that were preserved for children only. Called when there are no children any more. */
static void sweep(struct children *children)
{
	struct core *core = children->core;
	const uint64_t end = core->window->high;

	for (uint64_t page = 0; (page = pages_next_known(&core->pages, page, end)) < end; page++) {
		if (!(pages_load(&core->pages, page) & PAGE_SNAPSHOT))
			continue;
		pages_unmark(&core->pages, page, PAGE_SNAPSHOT);
		if (pages_move(&core->pages, page, PAGE_UNTOUCHED, PAGE_DISCARDING, 0)) {
			store_discard(core->store, page, 1);
			pages_move(&core->pages, page, PAGE_DISCARDING, PAGE_UNTOUCHED, 0);
		}
	}
	core_settled(core);
}

bool children_remove_ended(struct children *children, int except)
{
	bool any = false;

	for (unsigned i = 0; i < children->top; i++) {
		struct child *child = &children->entries[i];

		if (child->uffd < 0 || child->uffd == except)
			continue;
		/* This call only probes whether the child lives. Ending a page's protection does no harm, and fails
		   with ESRCH if the child has ended. */
		struct uffd probe = {.fd = child->uffd};
		if (uffd_protect(&probe, children->core->window->base, STORE_PAGE, false) != -ESRCH)
			continue;
		/* Processes that the child has forked may need what it sent before its end. */
		children_hear(children, child);
		if (child->reclaim.answered)
			continue; /* until the evictor has handled the answer */
		forget(children, child);
		any = true;
	}
	if (any)
		core_settled(children->core);
	return any;
}

void children_reap(struct children *children)
{
	pthread_mutex_lock(&children->lock);
	children->hung_up = false;
	bool any = children_remove_ended(children, -1);
	pthread_mutex_unlock(&children->lock);
	if (any && atomic_load(&children->count) == 0)
		sweep(children);
}

/* --- Homes ------------------------------------------------------------------------------------------------------ */

bool children_need(struct children *children, uint64_t page)
{
	bool need = false;

	pthread_mutex_lock(&children->lock);
	for (unsigned i = 0; i < children->top && !need; i++) {
		const struct child *child = &children->entries[i];

		need = child->uffd >= 0 && snapshot_needs(&child->snapshot, page);
	}
	pthread_mutex_unlock(&children->lock);
	return need;
}

void children_rehome(struct children *children, uint64_t page, uint64_t home)
{
	pthread_mutex_lock(&children->lock);
	for (unsigned i = 0; i < children->top; i++) {
		struct child *child = &children->entries[i];

		if (child->uffd < 0 || !snapshot_needs(&child->snapshot, page))
			continue;
		if (home == SNAPSHOT_LOST && reclaim_forget(child, page)) {
			/* The child has a copy. The copy is write-protected, so the child would drop it if it were
			   asked for it. */
			snapshot_remove(&child->snapshot, page);
			continue;
		}
		shadows_share(&children->core->shadows, home);
		snapshot_set_home(&child->snapshot, page, home);
	}
	pthread_mutex_unlock(&children->lock);
	shadows_drop(&children->core->shadows, home); /* the caller's use */
}

/* --- Answers ---------------------------------------------------------------------------------------------------- */

/* As children_look(), but the caller holds the lock and does not become a user of *@ret_home. */
static enum child_fault look(const struct child *child, uint64_t page, uint64_t *ret_home)
{
	if (reclaim_is_asked(child, page))
		return CHILD_ASKED;
	if (!snapshot_is_far(&child->snapshot, page) || reclaim_is_clean(child, page))
		return CHILD_ZEROES;
	*ret_home = snapshot_home(&child->snapshot, page);
	return *ret_home == SNAPSHOT_LOST ? CHILD_LOST : CHILD_FAR;
}

enum child_fault children_look(struct children *children, const struct child *child, uint64_t page, uint64_t *ret_home)
{
	pthread_mutex_lock(&children->lock);
	enum child_fault fault = look(child, page, ret_home);
	if (fault == CHILD_FAR)
		shadows_share(&children->core->shadows, *ret_home);
	pthread_mutex_unlock(&children->lock);
	return fault;
}

bool children_may_read(const struct children *children, uint64_t home)
{
	uint32_t word = pages_load(&children->core->pages, home);

	return page_state(word) != PAGE_EVICTING && page_state(word) != PAGE_DISCARDING && !(word & PAGE_WRITING) &&
	       !atomic_load(&children->held_back);
}

bool children_may_write(struct children *children, const struct child *child, uint64_t page)
{
	pthread_mutex_lock(&children->lock);
	bool asked = reclaim_is_asked(child, page);
	pthread_mutex_unlock(&children->lock);
	return !asked;
}

void children_written(struct children *children, struct child *child, uint64_t page)
{
	pthread_mutex_lock(&children->lock);
	/* A late fault changes nothing: the page may have left since. */
	if (!reclaim_is_asked(child, page) && reclaim_forget(child, page)) {
		reclaim_add_own(child, page);
		snapshot_remove(&child->snapshot, page);
	}
	pthread_mutex_unlock(&children->lock);
}

int children_deny(struct children *children, struct child *child, uint64_t page, const char *why)
{
	struct core *core = children->core;

	if (!child->denied) {
		core_count(&core->counters->children_stopped, 1);
		log_error(
		    "a process forked from %d that does not execute another program gets SIGBUS when it touches memory "
		    "that %s; farpage run --engine swap can run such programs",
		    getpid(), why);
	}
	child->denied = true;
	int result = uffd_poison(&core->uffd, child->uffd, core_address(core, page), STORE_PAGE);
	if (result == -EOPNOTSUPP && child->pid)
		kill(child->pid, SIGBUS);
	return result == -EAGAIN ? result : 0;
}

/* Returns how many more pages @child may have. */
static int64_t room(const struct children *children, const struct child *child)
{
	return atomic_load(&children->core->limit) - child->given;
}

/* Returns 0 if @child may get one more page, -EAGAIN if it may once it has removed pages, or -ENOSPC. */
static int check_budget(struct children *children, struct child *child)
{
	int64_t limit = atomic_load(&children->core->limit), left = room(children, child);

	if (atomic_load(&children->farewell))
		return 0;
	if (left > RECLAIM_BEFORE || left > limit / 4)
		return 0;
	bool removes = reclaim_ask(children, child);
	if (left > 0)
		return 0;
	return removes ? -EAGAIN : -ENOSPC;
}

/* Places @page in @child: as a clean copy, or as the child's own page of zeroes. The caller holds the lock. Returns 0,
   -EAGAIN, -ENOMEM, or -ENOSPC if the child has used its budget. */
static int give(struct children *children, struct child *child, uint64_t page, const void *data, bool clean)
{
	char *address = core_address(children->core, page);
	int result = check_budget(children, child);

	if (result)
		return result;
	/* check_budget() may have asked the child for this page. That happens if the fault is late, and the page has
	   been placed for another thread. */
	if (reclaim_is_asked(child, page))
		return -EAGAIN;
	result = (clean ? uffd_copy_protected : uffd_copy)(child->uffd, address, data, STORE_PAGE, NULL);
	if (result == -EAGAIN || result == -ENOMEM)
		return result;
	if (result)
		uffd_wake(child->uffd, address, STORE_PAGE);
	if (result == -EEXIST && reclaim_is_clean(child, page))
		return 0; /* a late fault */
	if (result == 0) {
		/* If the page counted already, the child has discarded it by a system call that bypasses libc. */
		if (!reclaim_forget(child, page))
			children_count(children, child, 1);
		(clean ? reclaim_add_clean : reclaim_add_own)(child, page);
	}
	if (result || !clean)
		snapshot_remove(&child->snapshot, page);
	return 0; /* after another error, the child already has the page, has unmapped it, or has ended */
}

int children_answer(struct children *children, struct child *child, uint64_t page, const void *data, bool clean)
{
	pthread_mutex_lock(&children->lock);
	int result = give(children, child, page, data ? data : zeroes, clean);
	pthread_mutex_unlock(&children->lock);
	if (result == -ENOSPC)
		return children_deny(children, child, page, "goes beyond its budget");
	if (result == -ENOMEM)
		return children_deny(children, child, page, "this machine has no memory for");
	return result == -EAGAIN ? result : 0;
}

bool children_offer(struct children *children, struct child *child, uint64_t page, uint64_t home, const void *data)
{
	uint64_t found;

	pthread_mutex_lock(&children->lock);
	bool given =
	    look(child, page, &found) == CHILD_FAR && found == home && give(children, child, page, data, true) == 0;
	pthread_mutex_unlock(&children->lock);
	return given;
}

/* Returns true if @child has not touched the page, but may do so: new memory, or memory of the program that was
   untouched at the fork. */
static bool is_untouched(const struct children *children, const struct child *child, uint64_t page)
{
	const struct core *core = children->core;

	if (snapshot_is_far(&child->snapshot, page) || reclaim_has(child, page) || reclaim_is_asked(child, page))
		return false;
	return bitmap_has(child->mapped, page) ||
	       (window_has(core->window, page) && page_state(pages_load(&core->pages, page)) == PAGE_UNTOUCHED);
}

/* Fills @count untouched pages from @first on with @zero_pages. Returns how many it has filled. */
static unsigned fill(struct children *children, struct child *child, uint64_t first, unsigned count,
		     const char *zero_pages)
{
	size_t bytes = 0;

	uffd_copy(child->uffd, core_address(children->core, first), zero_pages, (size_t)count * STORE_PAGE, &bytes);
	unsigned filled = (unsigned)(bytes / STORE_PAGE);
	children_count(children, child, filled);
	for (unsigned i = 0; i < filled; i++)
		reclaim_add_own(child, first + i);
	return filled;
}

unsigned children_fill_ahead(struct children *children, struct child *child, uint64_t page, struct ahead ahead,
			     const char *zero_pages)
{
	unsigned most = ahead_within(ahead, page, children->core->pages.count), count = 0;

	pthread_mutex_lock(&children->lock);
	const int64_t spare = room(children, child) - RECLAIM_MAX;
	while (count < most && count < spare && is_untouched(children, child, ahead_page(ahead, page, count)))
		count++;
	if (count)
		count = fill(children, child, ahead.step > 0 ? page + 1 : page - count, count, zero_pages);
	pthread_mutex_unlock(&children->lock);
	return count;
}
