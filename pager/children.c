#include "pager/children.h"

#include "common/descriptors.h"
#include "common/format.h"
#include "common/log.h"
#include "pager/bitmap.h"
#include "pager/pass.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define ANNOUNCE_TRIES 1000u
#define ANNOUNCE_US 100u
#define HOME_LOST UINT32_MAX
/* The data of an event of a child: 1 + the number of its entry, shifted, and a bit that is set for its socket. */
#define EVENT_SHIFT 32
#define EVENT_SOCKET UINT64_C(1)

static const struct child unused_child = {.uffd = -1, .socket = -1, .announced = -1};
static const char zeroes[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

bool children_is_far(const struct child *child, uint64_t page)
{
	return page < child->pages && bitmap_has(child->far, page);
}

/* --- Homes ------------------------------------------------------------------------------------------------------- */

static uint64_t home_of(const struct children *children, const struct child *child, uint64_t page)
{
	uint32_t home = child->homes[page];

	return home == 0 ? page : home == HOME_LOST ? CHILDREN_LOST : children->core->shadows.first + home - 1;
}

void children_share_home(struct children *children, uint64_t home)
{
	if (shadows_has(&children->core->shadows, home))
		shadows_share(&children->core->shadows, home);
}

void children_drop_home(struct children *children, uint64_t home)
{
	if (shadows_has(&children->core->shadows, home))
		shadows_drop(&children->core->shadows, home);
}

void children_disown(struct children *children, struct child *child, uint64_t page)
{
	if (!children_is_far(child, page))
		return;
	children_drop_home(children, home_of(children, child, page));
	bitmap_set(child->far, page, 1, false);
	if (child->homes[page]) {
		child->homes[page] = 0;
		child->rehomed--;
	}
}

void children_set_home(struct children *children, struct child *child, uint64_t page, uint64_t home)
{
	assert(home == CHILDREN_LOST || shadows_has(&children->core->shadows, home));
	children_disown(children, child, page);
	child->homes[page] = home == CHILDREN_LOST ? HOME_LOST : (uint32_t)(home - children->core->shadows.first) + 1;
	child->rehomed++;
	bitmap_set(child->far, page, 1, true);
}

bool children_need(struct children *children, uint64_t page)
{
	bool need = false;

	pthread_mutex_lock(&children->lock);
	for (unsigned i = 0; i < children->top && !need; i++) {
		const struct child *child = &children->entries[i];

		need = child->uffd >= 0 && children_is_far(child, page) && child->homes[page] == 0;
	}
	pthread_mutex_unlock(&children->lock);
	return need;
}

void children_rehome(struct children *children, uint64_t page, uint64_t home)
{
	pthread_mutex_lock(&children->lock);
	for (unsigned i = 0; i < children->top; i++) {
		struct child *child = &children->entries[i];

		if (child->uffd < 0 || !children_is_far(child, page) || child->homes[page])
			continue;
		if (home == CHILDREN_LOST && reclaim_forget(child, page)) {
			/* The child has a copy. The copy is write-protected, so the child would drop it if it were asked
			   for it. */
			children_disown(children, child, page);
			continue;
		}
		children_share_home(children, home);
		children_set_home(children, child, page, home);
	}
	pthread_mutex_unlock(&children->lock);
	children_drop_home(children, home); /* the caller's use */
}

/* Returns the next far page from @page on whose home is not the program's page. There is one. */
static uint64_t next_rehomed(const struct child *child, uint64_t page)
{
	while (!children_is_far(child, page) || !child->homes[page])
		page++;
	return page;
}

/* Ends the child's use of all its shadows. */
static void drop_homes(struct children *children, struct child *child)
{
	for (uint64_t page = 0; child->rehomed; page++) {
		page = next_rehomed(child, page);
		children_disown(children, child, page);
	}
}

/* --- Entries ----------------------------------------------------------------------------------------------------- */

void children_take_back(struct children *children, struct child *child, int64_t count)
{
	child->given -= count;
	children->given -= count;
	core_release(children->core, count);
}

static size_t bitmap_bytes(uint64_t pages)
{
	return (pages + BITMAP_WORD) / BITMAP_WORD * sizeof(uint64_t);
}

/* Returns the bytes of a child's tables: three bitmaps, the homes, and the contents that it sends. */
static size_t tables_bytes(uint64_t pages)
{
	return RECLAIM_MOVES * STORE_PAGE + 3 * bitmap_bytes(pages) + pages * sizeof(uint32_t);
}

static int map_tables(struct child *child)
{
	const size_t bytes = tables_bytes(child->pages), bitmap = bitmap_bytes(child->pages);
	char *tables = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (tables == MAP_FAILED)
		return -errno;
	madvise(tables, bytes, MADV_DONTFORK);
	child->reclaim.contents = tables;
	tables += RECLAIM_MOVES * STORE_PAGE;
	child->far = (uint64_t *)(void *)tables;
	child->reclaim.clean = (uint64_t *)(void *)(tables + bitmap);
	child->reclaim.own = (uint64_t *)(void *)(tables + 2 * bitmap);
	child->homes = (uint32_t *)(void *)(tables + 3 * bitmap);
	return 0;
}

static void measure_tables(struct child *child)
{
	if (child->uffd >= 0)
		child->tables = pages_table_memory(child->reclaim.contents, tables_bytes(child->pages));
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
		measure_tables(&children->entries[children->measured]);
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
	drop_homes(children, child);
	munmap(child->reclaim.contents, tables_bytes(child->pages));
	core_release(children->core, child->given);
	children->given -= child->given;
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

/* Makes the pages far for the child that are far for the program. The caller holds core->evict_lock, so no page is
   PAGE_EVICTING. */
static void take_snapshot(struct children *children, struct child *child)
{
	struct pages *pages = &children->core->pages;

	for (uint64_t page = 0; (page = pages_next_known(pages, page, child->pages)) < child->pages; page++) {
		if (!pages_state_is_far(page_state(pages_load(pages, page))))
			continue;
		bitmap_set(child->far, page, 1, true);
		pages_mark(pages, page, PAGE_SNAPSHOT);
	}
}

/* Makes the pages far for the child that are far for @parent, with the same homes. */
static void inherit(struct children *children, struct child *child, const struct child *parent)
{
	assert(child->far && parent->far);
	memcpy(child->far, parent->far, bitmap_bytes(parent->pages));
	for (uint64_t page = 0; child->rehomed < parent->rehomed; page++) {
		page = next_rehomed(parent, page);
		children_share_home(children, home_of(children, parent, page));
		child->homes[page] = parent->homes[page];
		child->rehomed++;
	}
	reclaim_inherit(child, parent);
}

/* Has the handler wait for @fd, which belongs to @child. @kind is EVENT_SOCKET, or 0 for the userfaultfd. Returns 0 or
   -errno. */
static int watch(struct children *children, const struct child *child, int fd, uint64_t kind)
{
	struct epoll_event event = {.events = EPOLLIN,
				    .data.u64 = (uint64_t)(child - children->entries + 1) << EVENT_SHIFT | kind};

	return epoll_ctl(children->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int children_read(struct children *children, int fd, struct uffd_message *messages, unsigned max)
{
	int count = uffd_read(fd, messages, max);

	if (count != -EMFILE)
		return count;
	uint64_t before = descriptors_raise_briefly();
	count = uffd_read(fd, messages, max);
	descriptors_restore(before);
	if (count != -EMFILE || children->spare < 0)
		return count;
	close(children->spare);
	children->spare = -1;
	return uffd_read(fd, messages, max);
}

void children_make_spare(struct children *children)
{
	if (children->spare < 0)
		children->spare = eventfd(0, EFD_CLOEXEC);
}

struct child *children_of_event(struct children *children, uint64_t data, bool *ret_socket)
{
	*ret_socket = data & EVENT_SOCKET;
	return data >> EVENT_SHIFT ? &children->entries[(data >> EVENT_SHIFT) - 1] : NULL;
}

static int fill_entry(struct children *children, struct child *child, const struct child *parent, int uffd)
{
	struct child new = unused_child;

	new.pages = parent ? parent->pages : children->core->window->high;
	int error = map_tables(&new);
	if (error)
		return error;
	error = watch(children, child, uffd, 0);
	if (error) {
		munmap(new.reclaim.contents, tables_bytes(new.pages));
		return error;
	}
	new.uffd = uffd;
	new.born = ++children->added;
	*child = new;
	if (parent)
		inherit(children, child, parent);
	else
		take_snapshot(children, child);
	measure_tables(child);
	atomic_fetch_add(&children->count, 1);
	return 0;
}

bool children_announce(struct children *children, int socket)
{
	if (!children->core->uffd.sees_forks)
		return false;
	/* The handler must first send the previous child's descriptor. If that child's fork has failed, the handler
	   never sends one, so this wait is limited. */
	for (unsigned tries = 0; atomic_load(&children->announced) >= 0 && tries < ANNOUNCE_TRIES; tries++)
		usleep(ANNOUNCE_US);
	int old = atomic_exchange(&children->announced, socket);
	if (old >= 0)
		close(old);
	return true;
}

void children_hear(struct children *children, struct child *child)
{
	struct pass_message message;
	int what = -EAGAIN;
	uint64_t before = descriptors_raise_briefly(); /* a message may come with a descriptor */

	while (child->socket >= 0 && (what = pass_receive(child->socket, &message)) > 0) {
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

/* Returns the pager's end of the new child's socket, which the caller owns. Returns -1 if the child was not announced. */
static int announced_socket(struct children *children, struct child *parent)
{
	if (!parent)
		return atomic_exchange(&children->announced, -1);
	children_hear(children, parent);
	int socket = parent->announced;
	parent->announced = -1;
	return socket;
}

/* Answers a new child with @what, and @uffd or -1. */
static void answer_fork(int socket, enum pass what, int uffd)
{
	const struct pass_message message = {.fd = uffd};

	pass_send(socket, what, &message);
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

static bool reap(struct children *children, int except);

/* Poisons the pages that are far for the new child, whose descriptor is @uffd. If the new child forks meanwhile,
   poisoning fails with EAGAIN. This function then reads the fork's event, and poisons the same pages in the new child's
   own child. */
static void poison_far(struct children *children, const struct child *parent, int uffd)
{
	struct core *core = children->core;
	uint64_t pages = parent ? parent->pages : core->window->high;

	for (uint64_t page = 0; page < pages;) {
		bool far = parent ? children_is_far(parent, page)
				  : pages_state_is_far(page_state(pages_load(&core->pages, page)));
		struct uffd_message message;

		if (!far || uffd_poison(&core->uffd, uffd, core_address(core, page), STORE_PAGE) != -EAGAIN) {
			page++;
		} else if (children_read(children, uffd, &message, 1) == 1 && message.kind == UFFD_FORKED) {
			poison_far(children, parent, message.child);
			close(message.child);
		}
	}
}

static void count_stopped(struct core *core)
{
	__atomic_fetch_add(&core->counters->children_stopped, 1, __ATOMIC_RELAXED);
}

/*
 * Refuses a child that gets no entry. If its descriptor stayed open, the child would wait forever in its first far
 * fault. If this function only closed the descriptor, far pages would read as zeroes. So it first poisons the far
 * pages.
 *
 * Without UFFDIO_POISON, this function tells the child to end, through @socket. @error is -errno, or 0 if there are too
 * many children.
 */
static void refuse(struct children *children, const struct child *parent, int uffd, int socket, int error)
{
	if (error)
		log_error("process %d cannot serve far memory to its newest child: %s: the child is stopped at its "
			  "first far page",
			  getpid(), format_errno(error));
	else
		log_error("process %d has more than %d living children that share its far memory: the newest is "
			  "stopped at its first far page",
			  getpid(), CHILDREN_MAX);
	count_stopped(children->core);
	bool poisons = children->core->uffd.can_poison;
	if (poisons)
		poison_far(children, parent, uffd);
	if (socket >= 0) {
		answer_fork(socket, poisons ? PASS_POISONED : PASS_REFUSED, -1);
		close(socket);
	}
	/* Without UFFDIO_POISON, the descriptor stays open until the program ends: far pages must not read as zeroes
	   before the child has ended. */
	if (poisons)
		close(uffd);
}

void children_add(struct children *children, struct child *parent, int uffd)
{
	int socket = announced_socket(children, parent);
	struct child *child = free_entry(children);

	if (!child && reap(children, parent ? parent->uffd : -1))
		child = free_entry(children);
	children_make_spare(children);
	int error = children->spare < 0 ? -EMFILE : child ? fill_entry(children, child, parent, uffd) : 0;
	if (!child || error) {
		refuse(children, parent, uffd, socket, error);
		children_make_spare(children);
		return;
	}
	child->socket = socket;
	if (socket < 0)
		return;
	if (watch(children, child, socket, EVENT_SOCKET))
		child->reclaim.mute = true;
	answer_fork(socket, PASS_SERVED, uffd);
}

enum child_fault children_look(struct children *children, const struct child *child, uint64_t page, uint64_t *ret_home)
{
	enum child_fault fault = CHILD_ZEROES;

	pthread_mutex_lock(&children->lock);
	if (reclaim_is_asked(child, page)) {
		fault = CHILD_ASKED;
	} else if (children_is_far(child, page) && !reclaim_is_clean(child, page)) {
		*ret_home = home_of(children, child, page);
		fault = *ret_home == CHILDREN_LOST ? CHILD_LOST : CHILD_FAR;
		children_share_home(children, *ret_home);
	}
	pthread_mutex_unlock(&children->lock);
	return fault;
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
		children_disown(children, child, page);
	}
	pthread_mutex_unlock(&children->lock);
}

int children_deny(struct children *children, struct child *child, uint64_t page, const char *why)
{
	struct core *core = children->core;

	if (!child->denied) {
		count_stopped(core);
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

/* Returns 0 if a child may get one more page, -EAGAIN if it may once a child has removed pages, or -ENOSPC. */
static int check_share(struct children *children)
{
	int64_t limit = atomic_load(&children->core->limit);

	if (children->given < limit / 8 * 3)
		return 0;
	bool removes = reclaim_ask(children);
	if (children->given < limit / 2)
		return 0;
	if (removes)
		return -EAGAIN;
	if (children->given < limit / 4 * 3)
		return 0;
	return reclaim_awaits(children) ? -EAGAIN : -ENOSPC;
}

/* Places @page in @child: as a clean copy, or as the child's own page of zeroes. The caller holds the lock. Returns 0,
   -EAGAIN, -ENOMEM, or -ENOSPC if the children have used their share. */
static int give(struct children *children, struct child *child, uint64_t page, const void *data, bool clean)
{
	struct core *core = children->core;
	char *address = core_address(core, page);
	int result = check_share(children);

	/* Another child may have ended since the last children_reap(). */
	if (result == -ENOSPC && reap(children, child->uffd))
		result = check_share(children);
	if (result)
		return result;
	/* check_share() may have asked the child for this page. That happens if the fault is late, and the page has been
	   placed for another thread. */
	if (reclaim_is_asked(child, page) || core_claim(core, 1, 0) == 0)
		return -EAGAIN;
	result = (clean ? uffd_copy_protected : uffd_copy)(child->uffd, address, data, STORE_PAGE, NULL);
	if (result)
		core_release(core, 1);
	if (result == -EAGAIN || result == -ENOMEM)
		return result;
	if (result)
		uffd_wake(child->uffd, address, STORE_PAGE);
	if (result == -EEXIST && reclaim_is_clean(child, page))
		return 0; /* a late fault */
	if (result == 0) {
		/* If the page counted already, the child has discarded it by a system call that bypasses libc. */
		child->given++;
		children->given++;
		if (reclaim_forget(child, page))
			children_take_back(children, child, 1);
		(clean ? reclaim_add_clean : reclaim_add_own)(child, page);
	}
	if (result || !clean)
		children_disown(children, child, page);
	return 0; /* after another error, the child already has the page, has unmapped it, or has ended */
}

int children_answer(struct children *children, struct child *child, uint64_t page, const void *data, bool clean)
{
	pthread_mutex_lock(&children->lock);
	int result = give(children, child, page, data ? data : zeroes, clean);
	pthread_mutex_unlock(&children->lock);
	if (result == -ENOSPC)
		return children_deny(children, child, page, "goes beyond its share of the local budget");
	if (result == -ENOMEM)
		return children_deny(children, child, page, "this machine has no memory for");
	return result == -EAGAIN ? result : 0;
}

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

/* Removes children that have ended, except the child whose descriptor is @except. The caller holds the lock. Returns
   true if this function removed any child. */
static bool reap(struct children *children, int except)
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
	bool any = reap(children, -1);
	pthread_mutex_unlock(&children->lock);
	if (any && atomic_load(&children->count) == 0)
		sweep(children);
}
