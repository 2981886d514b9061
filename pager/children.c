#include "pager/children.h"

#include "common/format.h"
#include "common/log.h"
#include "pager/bitmap.h"
#include "pager/pass.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define ANNOUNCE_TRIES 1000u
#define ANNOUNCE_US 100u
/* The evictor yields the processor this many times before it sleeps between two tries. After ASKED_TRIES tries, more
   than a second, it does not wait for a child's answer any more. */
#define YIELDS 1000u
#define YIELD_US 1000u
#define ASKED_TRIES 2000u

static const struct child unused_child = {.uffd = -1, .socket = -1, .announced = -1};
static const char zeroes[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

static bool bit_of(const struct child *child, uint64_t page)
{
	return page < child->pages && bitmap_has(child->snapshot, page);
}

void children_disown(struct child *child, uint64_t page)
{
	if (page < child->pages)
		bitmap_set(child->snapshot, page, 1, false);
}

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

void children_open(struct children *children, struct core *core)
{
	*children = (struct children){.core = core, .epoll = -1};
	atomic_store(&children->announced, -1);
	pthread_mutex_init(&children->lock, NULL);
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		children->entries[i] = unused_child;
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
	close(child->uffd);
	close_socket(children, child);
	if (child->announced >= 0)
		close(child->announced);
	if (child->snapshot)
		munmap(child->snapshot, 2 * bitmap_bytes(child->pages));
	core_release(children->core, child->given);
	children->given -= child->given;
	*child = unused_child;
	atomic_fetch_sub(&children->count, 1);
}

void children_close(struct children *children)
{
	if (!children->core)
		return;
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		if (children->entries[i].uffd >= 0)
			forget(children, &children->entries[i]);
	pthread_mutex_destroy(&children->lock);
	children->core = NULL;
}

/* Takes the child's snapshot. The caller holds core->evict_lock, so no page is PAGE_EVICTING. */
static void take_snapshot(struct children *children, struct child *child)
{
	struct pages *pages = &children->core->pages;

	for (uint64_t page = 0; (page = pages_next_known(pages, page, child->pages)) < child->pages; page++) {
		if (!pages_state_is_far(page_state(pages_load(pages, page))))
			continue;
		bitmap_set(child->snapshot, page, 1, true);
		pages_mark(pages, page, PAGE_SNAPSHOT);
	}
}

static int fill_entry(struct children *children, struct child *child, const struct child *parent, int uffd)
{
	struct core *core = children->core;
	uint64_t pages = parent ? parent->pages : core->window->high;
	const size_t bytes = bitmap_bytes(pages); /* of the snapshot, and of the clean copies */
	char *bitmaps = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bitmaps == MAP_FAILED)
		return -errno;
	madvise(bitmaps, 2 * bytes, MADV_DONTFORK);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = uffd};
	if (epoll_ctl(children->epoll, EPOLL_CTL_ADD, uffd, &event)) {
		int error = -errno;

		munmap(bitmaps, 2 * bytes);
		return error;
	}
	*child = unused_child;
	child->uffd = uffd;
	child->born = ++children->added;
	child->pages = pages;
	child->snapshot = (uint64_t *)(void *)bitmaps;
	child->copies.bits = (uint64_t *)(void *)(bitmaps + bytes);
	if (parent) {
		memcpy(child->snapshot, parent->snapshot, bytes);
		memcpy(child->copies.lost, parent->copies.lost, sizeof child->copies.lost);
		child->copies.lost_count = parent->copies.lost_count;
		child->copies.mute = child->copies.lost_count; /* there is room for one list of lost pages */
	} else {
		take_snapshot(children, child);
	}
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

	while (child->socket >= 0 && (what = pass_receive(child->socket, &message)) > 0) {
		if (what == PASS_DROPPED)
			copies_answered(children, child, &message);
		if (message.fd < 0)
			continue;
		/* A fork that was announced before may have failed. */
		if (child->announced >= 0)
			close(child->announced);
		child->announced = message.fd;
	}
	if (child->socket >= 0 && what != -EAGAIN) {
		close_socket(children, child);
		copies_abandon(child);
		child->copies.asked_count = 0;
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
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		if (children->entries[i].uffd < 0)
			return &children->entries[i];
	return NULL;
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
		bool far =
		    parent ? bit_of(parent, page) : pages_state_is_far(page_state(pages_load(&core->pages, page)));
		struct uffd_message message;

		if (!far || uffd_poison(&core->uffd, uffd, core_address(core, page), STORE_PAGE) != -EAGAIN) {
			page++;
		} else if (uffd_read(uffd, &message, 1) == 1 && message.kind == UFFD_FORKED) {
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

	if (!child && !parent) {
		children_reap(children);
		child = free_entry(children);
	} else if (!child && reap(children, parent->uffd)) {
		child = free_entry(children);
	}
	int error = child ? fill_entry(children, child, parent, uffd) : 0;
	if (!child || error) {
		refuse(children, parent, uffd, socket, error);
		return;
	}
	child->socket = socket;
	if (socket < 0)
		return;
	/* The child sends a message for each of its forks, too, which children_hear() reads only when it must. So the
	   socket is reported once for each message (EPOLLET). */
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = socket};
	if (epoll_ctl(children->epoll, EPOLL_CTL_ADD, socket, &event))
		child->copies.mute = true;
	answer_fork(socket, PASS_SERVED, uffd);
}

enum child_fault children_look(struct children *children, const struct child *child, uint64_t page)
{
	enum child_fault fault = CHILD_ZEROES;

	pthread_mutex_lock(&children->lock);
	if (copies_is_asked(child, page))
		fault = CHILD_ASKED;
	else if (copies_is_lost(child, page))
		fault = CHILD_LOST;
	else if (bit_of(child, page) && !copies_has(child, page))
		fault = CHILD_FAR;
	pthread_mutex_unlock(&children->lock);
	return fault;
}

bool children_write(struct children *children, struct child *child, uint64_t page)
{
	pthread_mutex_lock(&children->lock);
	bool asked = copies_is_asked(child, page);
	if (!asked) {
		copies_forget(child, page);
		children_disown(child, page);
	}
	pthread_mutex_unlock(&children->lock);
	return !asked;
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

/* Returns 0 if @child may get one more page, -EAGAIN if it may once children have dropped pages, or -ENOSPC. */
static int check_share(struct children *children, const struct child *child)
{
	int64_t limit = atomic_load(&children->core->limit);

	if (child->given - child->copies.count > limit / 2)
		return -ENOSPC;
	if (children->given < limit / 8 * 3)
		return 0;
	bool drop = copies_ask(children);
	if (children->given < limit / 2)
		return 0;
	return drop ? -EAGAIN : children->given < limit / 4 * 3 ? 0 : -ENOSPC;
}

/* Places @page in @child, as a clean copy or as the child's own page. The caller holds the lock. If *@room is true, the
   caller has claimed memory for one page; otherwise this function claims it. On return, *@room is true if the claim was
   not used. Returns 0, -EAGAIN, -ENOMEM, or -ENOSPC if the children have used their share. */
static int give(struct children *children, struct child *child, uint64_t page, const void *data, bool clean, bool *room)
{
	struct core *core = children->core;
	char *address = core_address(core, page);
	int result = check_share(children, child);

	if (result)
		return result;
	if (!*room && core_claim(core, 1, 0) == 0)
		return -EAGAIN;
	result = (clean ? uffd_copy_protected : uffd_copy)(child->uffd, address, data, STORE_PAGE, NULL);
	*room = result != 0;
	if (result == 0) {
		child->given++;
		children->given++;
	}
	if (result == -EAGAIN || result == -ENOMEM)
		return result;
	if (result)
		uffd_wake(child->uffd, address, STORE_PAGE);
	if (result == -EEXIST && copies_has(child, page))
		return 0; /* a late fault */
	copies_forget(child, page);
	if (result == 0 && clean)
		copies_add(child, page);
	else
		children_disown(child, page);
	return 0; /* after another error, the child already has the page, has unmapped it, or has ended */
}

int children_answer(struct children *children, struct child *child, uint64_t page, const void *data)
{
	bool room = false;

	pthread_mutex_lock(&children->lock);
	/* Since the read began, the evictor may have handed over the page, or the handler may have given it. Then the
	   child already has the page. */
	bool has = data && (!bit_of(child, page) || copies_has(child, page));
	int result = has ? 0 : give(children, child, page, data ? data : zeroes, data, &room);
	pthread_mutex_unlock(&children->lock);
	if (room)
		core_release(children->core, 1);
	if (result == -ENOSPC)
		return children_deny(children, child, page, "goes beyond its share of the local budget");
	if (result == -ENOMEM)
		return children_deny(children, child, page, "this machine has no memory for");
	return result == -EAGAIN ? result : 0;
}

/* Hands the donors' contents of @page, which will change, to @child. The caller holds the lock. @tries is the number of
   calls before that returned -EAGAIN. Returns 0, -EAGAIN if an event or an answer of the child must be read first, or
   another -errno if the child cannot get the page. */
static int hand_to(struct children *children, struct child *child, uint64_t page, const void *data, unsigned tries,
		   bool *room)
{
	if (child->uffd < 0 || !bit_of(child, page))
		return 0;
	if (copies_is_asked(child, page)) {
		if (tries < ASKED_TRIES)
			return -EAGAIN;
		copies_abandon(child);
		return 0;
	}
	if (copies_has(child, page)) {
		copies_forget(child, page);
		children_disown(child, page);
		return 0;
	}
	int result = data ? give(children, child, page, data, false, room) : -EIO;
	/* There is no memory for a second child's copy. This thread, the evictor, cannot wait for memory, because only
	   the evictor frees memory. */
	return result == -EAGAIN && !*room && core_free(children->core) <= 0 ? -ENOSPC : result;
}

static void hand_over(struct children *children, uint64_t page, const void *data, bool *room)
{
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *child = &children->entries[i];

		int result = -EAGAIN;

		for (unsigned tries = 0; result == -EAGAIN; tries++) {
			pthread_mutex_lock(&children->lock);
			result = hand_to(children, child, page, data, tries, room);
			if (result && result != -EAGAIN) {
				result = children_deny(
				    children, child, page,
				    result == -EIO ? "could not be read"
						   : "its parent has changed while there was no room for a copy");
				if (result == 0)
					children_disown(child, page);
			}
			pthread_mutex_unlock(&children->lock);
			if (result == -EAGAIN && tries < YIELDS)
				sched_yield(); /* until the handler has read an event or an answer of the child */
			else if (result == -EAGAIN)
				usleep(YIELD_US);
		}
	}
}

static unsigned added(struct children *children)
{
	pthread_mutex_lock(&children->lock);
	unsigned count = children->added;
	pthread_mutex_unlock(&children->lock);
	return count;
}

bool children_hand_over(struct children *children, uint64_t page, const void *data)
{
	bool room = true; /* the claim of the parent's page, which is being evicted */
	unsigned before;

	/* If a child forks meanwhile, the new child may get an entry that hand_over() has already passed. So
	   hand_over() is called again. */
	do {
		before = added(children);
		hand_over(children, page, data, &room);
	} while (added(children) != before);
	return !room;
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
}

/* Removes children that have ended, except the child whose descriptor is @except. The caller holds the lock. Returns
   true if this function removed any child. */
static bool reap(struct children *children, int except)
{
	bool any = false;

	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *child = &children->entries[i];

		if (child->uffd < 0 || child->uffd == except)
			continue;
		/* This call only probes whether the child lives. Ending a page's protection does no harm, and fails
		   with ESRCH if the child has ended. */
		struct uffd probe = {.fd = child->uffd};
		if (uffd_protect(&probe, children->core->window->base, STORE_PAGE, false) != -ESRCH)
			continue;
		forget(children, child);
		any = true;
	}
	return any;
}

void children_reap(struct children *children)
{
	pthread_mutex_lock(&children->lock);
	bool any = reap(children, -1);
	pthread_mutex_unlock(&children->lock);
	if (any && atomic_load(&children->count) == 0)
		sweep(children);
	if (any)
		core_settled(children->core);
}
