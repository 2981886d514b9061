#include "pager/children.h"

#include "common/format.h"
#include "common/log.h"
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

static const char zeroes[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

static bool bit_of(const struct child *child, uint64_t page)
{
	return page < child->pages && (child->snapshot[page / 64] >> (page % 64) & 1);
}

static void clear_bit(struct child *child, uint64_t page)
{
	if (page < child->pages)
		child->snapshot[page / 64] &= ~(1ull << (page % 64));
}

static size_t snapshot_bytes(uint64_t pages)
{
	return (pages + 63) / 64 * sizeof(uint64_t) + 1;
}

void children_open(struct children *children, struct core *core)
{
	*children = (struct children){.core = core, .epoll = -1};
	atomic_store(&children->announced, -1);
	pthread_mutex_init(&children->lock, NULL);
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		children->entries[i] = (struct child){.uffd = -1, .socket = -1};
}

static void forget(struct children *children, struct child *child)
{
	close(child->uffd);
	if (child->socket >= 0)
		close(child->socket);
	if (child->snapshot)
		munmap(child->snapshot, snapshot_bytes(child->pages));
	core_release(children->core, child->given);
	*child = (struct child){.uffd = -1, .socket = -1};
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
		child->snapshot[page / 64] |= 1ull << (page % 64);
		pages_mark(pages, page, PAGE_SNAPSHOT);
	}
}

static int fill_entry(struct children *children, struct child *child, const struct child *parent, int uffd)
{
	struct core *core = children->core;
	uint64_t pages = parent ? parent->pages : core->window->high;
	void *snapshot = mmap(NULL, snapshot_bytes(pages), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (snapshot == MAP_FAILED)
		return -errno;
	madvise(snapshot, snapshot_bytes(pages), MADV_DONTFORK);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = uffd};
	if (epoll_ctl(children->epoll, EPOLL_CTL_ADD, uffd, &event)) {
		int error = -errno;

		munmap(snapshot, snapshot_bytes(pages));
		return error;
	}
	*child =
	    (struct child){.uffd = uffd, .socket = -1, .born = ++children->added, .snapshot = snapshot, .pages = pages};
	if (parent)
		memcpy(child->snapshot, parent->snapshot, snapshot_bytes(pages));
	else
		take_snapshot(children, child);
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

/* Returns the pager's end of the new child's socket, which the caller owns. Returns -1 if the child was not announced. A
   fork that was announced may have failed, so only the last announcement counts. */
static int announced_socket(struct children *children, const struct child *parent)
{
	int socket = -1, next;

	if (!parent)
		return atomic_exchange(&children->announced, -1);
	while (parent->socket >= 0 && pass_receive(parent->socket, &next) > 0) {
		if (socket >= 0)
			close(socket);
		socket = next;
	}
	return socket;
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
		pass_send(socket, poisons ? PASS_POISONED : PASS_REFUSED, -1);
		close(socket);
	}
	/* Without UFFDIO_POISON, the descriptor stays open until the program ends: far pages must not read as zeroes
	   before the child has ended. */
	if (poisons)
		close(uffd);
}

void children_add(struct children *children, const struct child *parent, int uffd)
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
	if (socket >= 0)
		pass_send(socket, PASS_SERVED, uffd);
}

bool children_want(struct children *children, const struct child *child, uint64_t page)
{
	pthread_mutex_lock(&children->lock);
	bool wanted = bit_of(child, page);
	pthread_mutex_unlock(&children->lock);
	return wanted;
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

/* Places @page in @child. The caller holds the lock. If *@room is true, the caller has claimed memory for one page;
   otherwise this function claims it. On return, *@room is true if the claim was not used. Returns 0, -EAGAIN, -ENOMEM,
   or -ENOSPC if the child has used its share. */
static int give(struct children *children, struct child *child, uint64_t page, const void *data, bool *room)
{
	struct core *core = children->core;

	if (child->given > atomic_load(&core->limit) / 2)
		return -ENOSPC;
	if (!*room && core_claim(core, 1, 0) == 0)
		return -EAGAIN;
	int result = uffd_copy(child->uffd, core_address(core, page), data, STORE_PAGE, NULL);
	*room = result != 0;
	if (result == 0)
		child->given++;
	if (result == -EAGAIN || result == -ENOMEM)
		return result;
	if (result)
		uffd_wake(child->uffd, core_address(core, page), STORE_PAGE);
	clear_bit(child, page);
	return 0; /* after another error, the child already has the page, has unmapped it, or has ended */
}

int children_answer(struct children *children, struct child *child, uint64_t page, const void *data)
{
	bool room = false;

	pthread_mutex_lock(&children->lock);
	/* If the evictor has handed over the page since the read, the child already has the page. */
	int result = data && !bit_of(child, page) ? 0 : give(children, child, page, data ? data : zeroes, &room);
	pthread_mutex_unlock(&children->lock);
	if (room)
		core_release(children->core, 1);
	if (result == -ENOSPC)
		return children_deny(children, child, page, "goes beyond its share, half of the local budget");
	if (result == -ENOMEM)
		return children_deny(children, child, page, "this machine has no memory for");
	return result == -EAGAIN ? result : 0;
}

static void hand_over(struct children *children, uint64_t page, const void *data, bool *room)
{
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *child = &children->entries[i];

		for (int result = -EAGAIN; result == -EAGAIN;) {
			pthread_mutex_lock(&children->lock);
			result = child->uffd < 0 || !bit_of(child, page) ? 0
				 : data                                  ? give(children, child, page, data, room)
									 : -EIO;
			/* There is no memory for a second child's copy. This thread, the evictor, cannot wait for
			   memory, because only the evictor frees memory. */
			if (result == -EAGAIN && !*room && core_free(children->core) <= 0)
				result = -ENOSPC;
			if (result && result != -EAGAIN) {
				result = children_deny(
				    children, child, page,
				    result == -EIO ? "could not be read"
						   : "its parent has changed while there was no room for a copy");
				if (result == 0)
					clear_bit(child, page);
			}
			pthread_mutex_unlock(&children->lock);
			if (result == -EAGAIN)
				sched_yield(); /* until the handler has read an event of the child */
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
