#include "pager/forks.h"

#include "common/descriptors.h"
#include "common/format.h"
#include "common/log.h"
#include "pager/pass.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AWAIT_TRIES 2000u /* about 0.2 s */
#define AWAIT_US 20u

/* --- Messages --------------------------------------------------------------------------------------------------- */

bool forks_announce(struct children *children, int socket)
{
	if (!children->core->uffd.sees_forks)
		return false;
	atomic_store(&children->unanswered, true);
	atomic_store(&children->announced, socket);
	return true;
}

void forks_await(struct children *children)
{
	for (unsigned tries = 0; atomic_load(&children->unanswered) && tries < AWAIT_TRIES; tries++)
		usleep(AWAIT_US);
	int left = atomic_exchange(&children->announced, -1);
	if (left >= 0)
		close(left);
}

/* Returns the pager's end of the new child's socket, which the caller owns. Returns -1 if the child
   was not announced. */
static int announced_socket(struct children *children, struct child *parent)
{
	if (!parent)
		return atomic_exchange(&children->announced, -1);
	children_hear(children, parent);
	int socket = parent->announced;
	parent->announced = -1;
	return socket;
}

void forks_make_spare(struct children *children)
{
	if (children->spare < 0)
		children->spare = eventfd(0, EFD_CLOEXEC);
}

int forks_read(struct children *children, int fd, struct uffd_message *messages, unsigned max)
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

/* --- Refused children ------------------------------------------------------------------------------------------- */

/* Returns how many pages of the window can be far for a child that @parent forks. */
static uint64_t pages_at_fork(const struct children *children, const struct child *parent)
{
	return parent ? parent->snapshot.pages : children->core->window->high;
}

/* Poisons the pages that are far for the new child, whose descriptor is @uffd. If the new child forks meanwhile,
   poisoning fails with EAGAIN. This function then reads the fork's event, and poisons the same pages in the new child's
   own child. */
static void poison_far(struct children *children, const struct child *parent, int uffd)
{
	struct core *core = children->core;
	uint64_t pages = pages_at_fork(children, parent);

	for (uint64_t page = 0; page < pages;) {
		bool far = parent ? snapshot_is_far(&parent->snapshot, page)
				  : pages_state_is_far(page_state(pages_load(&core->pages, page)));
		struct uffd_message message;

		if (!far || uffd_poison(&core->uffd, uffd, core_address(core, page), STORE_PAGE) != -EAGAIN) {
			page++;
		} else if (forks_read(children, uffd, &message, 1) == 1 && message.kind == UFFD_FORKED) {
			poison_far(children, parent, message.child);
			close(message.child);
		}
	}
}

/*
 * Refuses a child that gets no entry. If its descriptor stayed open, the child would wait forever in its first far
 * fault. If this function only closed the descriptor, far pages would read as zeroes. So it first poisons the far
 * pages.
 *
 * Without UFFDIO_POISON, this function tells the child to end, through @socket. @error is -errno of
 * children_enter().
 */
static void refuse(struct children *children, const struct child *parent, int uffd, int socket, int error)
{
	if (error == -EUSERS)
		log_error("process %d has more than %d living children that share its far memory: the newest is "
			  "stopped at its first far page",
			  getpid(), CHILDREN_MAX);
	else
		log_error("process %d cannot serve far memory to its newest child: %s: the child is stopped at its "
			  "first far page",
			  getpid(), format_errno(error));
	core_count(&children->core->counters->children_stopped, 1);
	bool poisons = children->core->uffd.can_poison;
	if (poisons)
		poison_far(children, parent, uffd);
	if (socket >= 0) {
		pass_send(socket, poisons ? PASS_POISONED : PASS_REFUSED, &(struct pass_message){.fd = -1});
		close(socket);
	}
	/* Without UFFDIO_POISON, the descriptor stays open until the program ends: far pages must not read as zeroes
	   before the child has ended. */
	if (poisons)
		close(uffd);
}

/* --- Added children --------------------------------------------------------------------------------------------- */

/* Makes the pages far for the child that are far for the program. The caller holds core->evict_lock, so no page is
   PAGE_EVICTING. */
static void take_snapshot(struct children *children, struct child *child)
{
	struct pages *pages = &children->core->pages;

	for (uint64_t page = 0; (page = pages_next_known(pages, page, child->snapshot.pages)) < child->snapshot.pages;
	     page++) {
		if (!pages_state_is_far(page_state(pages_load(pages, page))))
			continue;
		snapshot_add(&child->snapshot, page);
		pages_mark(pages, page, PAGE_SNAPSHOT);
	}
}

/* Enters the new child of @parent in @children. Returns 0 or -errno of children_enter(). */
static int enter(struct children *children, const struct child *parent, int uffd, struct child **ret_child)
{
	const uint64_t pages = pages_at_fork(children, parent);
	int error = children_enter(children, pages, uffd, ret_child);

	if (error == -EUSERS && children_remove_ended(children, parent ? parent->uffd : -1))
		error = children_enter(children, pages, uffd, ret_child);
	return error;
}

static void add(struct children *children, struct child *parent, int uffd)
{
	int socket = announced_socket(children, parent);
	struct child *child;

	forks_make_spare(children);
	int error = children->spare < 0 ? -EMFILE : enter(children, parent, uffd, &child);
	if (error) {
		refuse(children, parent, uffd, socket, error);
		forks_make_spare(children);
		return;
	}
	if (parent) {
		snapshot_inherit(&child->snapshot, &parent->snapshot);
		reclaim_inherit(child, parent);
	} else {
		take_snapshot(children, child);
	}
	children_measure(child);
	if (socket < 0)
		return;
	children_connect(children, child, socket);
	/* If all pages of the parent are local, the kernel has copied them. */
	child->local = parent && parent->local;
	const struct pass_message message = {
	    .fd = uffd, .count = 1, .words = {child->local ? 0 : snapshot_count(&child->snapshot)}};
	pass_send(socket, PASS_SERVED, &message);
}

void forks_add(struct children *children, struct child *parent, int uffd)
{
	add(children, parent, uffd);
	if (!parent)
		atomic_store(&children->unanswered, false);
}
