#include "pager/handler.h"

#include "common/clock.h"
#include "pager/children.h"
#include "pager/farewell.h"
#include "pager/faults.h"
#include "pager/fetch.h"
#include "pager/forks.h"
#include "pager/thread.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define ZERO_AHEAD 32u    /* most untouched pages filled ahead if pages are touched in order */
#define POLLS_A_LOOK 4u   /* number of polls of the store between two reads of new faults */
#define REAP_MS 100       /* interval between two searches for children that have ended */
#define FRAMES_SHARE 256u /* the demand frames, and each group's frames, get this fraction of the budget */
#define FRAMES_MIN 8u     /* the least frames of each */

/* --- Messages ----------------------------------------------------------------------------------------------------- */

struct messages {
	struct uffd_message items[64];
	unsigned count;
};

static void take_messages(struct handler *handler, struct messages *messages, int fd)
{
	int count;

	do {
		unsigned room = (unsigned)(sizeof messages->items / sizeof messages->items[0]) - messages->count;

		count = room ? forks_read(handler->core->children, fd, messages->items + messages->count, room) : 0;
		messages->count += count > 0 ? (unsigned)count : 0;
	} while (count == 16);
}

static void read_children(struct handler *handler);

/* Takes evict_lock. The evictor may hold evict_lock while it waits until the handler has completed a child's read, or
   has read the event of a child's fork. So the handler serves children until it has the lock. Meanwhile it places no
   pages of the program (keeps_back). */
static void lock_evictor_out(struct handler *handler)
{
	handler->keeps_back = true;
	while (pthread_mutex_trylock(&handler->core->evict_lock)) {
		fetch_poll(handler);
		read_children(handler);
		sched_yield();
	}
	handler->keeps_back = false;
}

static void add_children(struct handler *handler, struct child *parent, const struct messages *messages)
{
	struct core *core = handler->core;
	bool locked = parent; /* for a child's fork the caller holds children->lock */

	for (unsigned i = 0; i < messages->count; i++) {
		if (messages->items[i].kind != UFFD_FORKED)
			continue;
		if (!locked) {
			lock_evictor_out(handler);
			pthread_mutex_lock(&core->children->lock);
		}
		locked = true;
		forks_add(core->children, parent, messages->items[i].child);
	}
	if (locked && !parent) {
		pthread_mutex_unlock(&core->children->lock);
		pthread_mutex_unlock(&core->evict_lock);
	}
}

/* Ends the write protection of a page of @child, or of the program if @child is NULL, and wakes its writers. The
   kernel answers EAGAIN while that process forks, until the handler has read the fork's event. For a child, the
   handler reads only the events of children, because the program's own fork may be in progress (keeps_back). */
static void unprotect(struct handler *handler, const struct child *child, uint64_t page)
{
	const struct uffd uffd = {.fd = child ? child->uffd : handler->core->uffd.fd};

	while (uffd_protect(&uffd, core_address(handler->core, page), STORE_PAGE, false) == -EAGAIN) {
		if (child)
			read_children(handler);
		else
			handler->drain(handler);
	}
}

/*
 * Answers a write to a page that the evictor has protected in order to copy it.
 * - If the evictor still works on the page, the fault is parked until the evictor has dropped or released the page.
 * - If the evictor has failed and the page is resident again, the handler ends the protection. The page is
 *   PAGE_FILLING meanwhile, because the evictor could otherwise copy the page while the program writes.
 * - Otherwise the page has left. The waiting thread is woken and faults again.
 */
static void answer_protected(struct handler *handler, const struct fault *fault)
{
	struct core *core = handler->core;
	const uint64_t page = fault->page;

	if (page_state(pages_load(&core->pages, page)) == PAGE_EVICTING) {
		fetch_park(handler, fault);
	} else if (pages_move(&core->pages, page, PAGE_RESIDENT, PAGE_FILLING, 0)) {
		unprotect(handler, NULL, page);
		pages_move(&core->pages, page, PAGE_FILLING, PAGE_RESIDENT, 0);
		/* The evictor may have removed the page from its queue meanwhile, so the page is queued again. */
		residents_push(&core->residents, page, true);
	} else {
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
	}
}

static void dispatch(struct handler *handler, struct child *child, const struct messages *messages)
{
	struct core *core = handler->core;
	uint64_t now = clock_now();

	for (unsigned i = 0; i < messages->count; i++) {
		const struct uffd_message *message = &messages->items[i];
		const struct fault fault = {.page = core_page(core, message->address),
					    .started = now,
					    .child = child,
					    .born = child ? child->born : 0,
					    .thread = message->thread,
					    .write = message->write};

		if (message->kind == UFFD_MISSING) {
			core_count(&core->counters->faults, 1);
			(child ? faults_answer_child : faults_answer)(handler, &fault);
		} else if (message->kind == UFFD_PROTECTED && child) {
			/* The page is a clean copy (reclaim.h), or the child was forked while the program's page was
			   protected. */
			if (!children_may_write(core->children, child, fault.page)) {
				fetch_park(handler, &fault);
				continue;
			}
			unprotect(handler, child, fault.page);
			children_written(core->children, child, fault.page);
		} else if (message->kind == UFFD_PROTECTED) {
			answer_protected(handler, &fault);
		}
	}
	if (messages->count)
		follow_thread(&handler->follow, messages->items[messages->count - 1].thread, !child, now);
}

/* Reads and handles the messages of children. Once the handler has read the event of a child's fork, the evictor
   and that child's threads can continue. So the handler holds children->lock until the new child has its entry
   (forks.h). */
static void read_children(struct handler *handler)
{
	struct children *children = handler->core->children;
	struct epoll_event events[64];
	struct messages messages;

	if (atomic_load_explicit(&children->count, memory_order_relaxed) == 0)
		return;
	int count = epoll_wait(handler->epoll, events, 64, 0);
	for (int i = 0; i < count; i++) {
		bool is_socket;
		struct child *child = children_of_event(children, events[i].data.u64, &is_socket);

		if (!child || child->uffd < 0)
			continue;
		messages.count = 0;
		pthread_mutex_lock(&children->lock);
		if (is_socket)
			children_hear(children, child);
		else
			take_messages(handler, &messages, child->uffd);
		add_children(handler, child, &messages);
		pthread_mutex_unlock(&children->lock);
		dispatch(handler, child, &messages);
	}
}

static void read_messages(struct handler *handler)
{
	struct core *core = handler->core;
	struct messages messages = {.count = 0};

	atomic_fetch_add(&core->looks, 1);
	take_messages(handler, &messages, core->uffd.fd);
	add_children(handler, NULL, &messages);
	atomic_fetch_add(&core->looks, 1);
	dispatch(handler, NULL, &messages);
	read_children(handler);
}

static void serve_wanted(struct handler *handler)
{
	pthread_mutex_lock(&handler->wanted_lock);
	struct wanted *wanted = &handler->wanted;
	while (wanted->page < wanted->end) {
		if (page_state(pages_load(&handler->core->pages, wanted->page)) != PAGE_FAR) {
			wanted->page++;
			continue;
		}
		uint64_t left = wanted->end - wanted->page;
		unsigned length = left < handler->ahead ? (unsigned)left : handler->ahead;
		/* These are the pages after the one before; page 0 has the number after UINT64_MAX. */
		unsigned count = fetch_ahead(handler, wanted->page - 1, (struct ahead){length, 1});
		wanted->page += count;
		if (count == 0)
			break;
	}
	/* If memory is short, the request ends, because pages in use are more important than pages read in advance. */
	if (wanted->page >= wanted->end || core_free(handler->core) < handler->core->low)
		atomic_store(&handler->has_wanted, false);
	pthread_mutex_unlock(&handler->wanted_lock);
}

/* --- The thread ------------------------------------------------------------------------------------------------- */

/* Called when an answer arrives. If the polling had ended before the answer, tells spin.h how long the answer took,
   because longer polling may succeed next time. */
static void answered(struct handler *handler)
{
	if (handler->unanswered_since)
		spin_learn(&handler->spin, clock_now() - handler->unanswered_since);
	handler->unanswered_since = 0;
}

/* Polls while reads are in flight. Returns true when all reads have completed, or false if no answer arrived for as
   long as spin.h says. */
static bool spin(struct handler *handler)
{
	uint64_t begin = clock_now(), deadline = begin + handler->spin.ns;

	for (unsigned polls = 1; handler->in_flight; polls++) {
		if (fetch_poll(handler)) {
			answered(handler);
			if (handler->in_flight == 0)
				return true;
			begin = clock_now();
			deadline = begin + handler->spin.ns;
		} else if (polls % POLLS_A_LOOK == 0) {
			sched_yield(); /* a donor, or another thread of the program, may need this processor */
		}
		if (polls % POLLS_A_LOOK == 0) {
			read_messages(handler);
			if (clock_now() > deadline) {
				if (!handler->unanswered_since)
					handler->unanswered_since = begin;
				return false;
			}
		}
	}
	return true;
}

static void sleep_until_needed(struct handler *handler)
{
	struct core *core = handler->core;
	struct epoll_event events[8];
	bool has_children = atomic_load(&core->children->count);
	int timeout = has_children ? REAP_MS : -1;

	fetch_send(handler);
	kick_prepare(&core->handler_kick);
	bool ready = atomic_load(&core->stop) || atomic_load(&handler->has_wanted) || handler->answer_count ||
		     (handler->parked_count && atomic_load(&core->settlements) != handler->settlements) ||
		     farewell_is_due(handler);
	int count = 0;
	/* The store may wait for answers even with no read in flight (store_quiet). */
	bool listens = handler->in_flight || !store_quiet(handler->queue);
	if (!ready && (!listens || store_arm(handler->queue) == 0))
		count = epoll_wait(handler->epoll, events, 8, timeout);
	else if (!ready && fetch_poll(handler))
		answered(handler);
	kick_cancel(&core->handler_kick);
	/* Polls the store's queue even with no read in flight, so that the store learns of lost donors. */
	for (int i = 0; i < count; i++)
		if (events[i].data.u64 == (unsigned)store_queue_fd(handler->queue) && fetch_poll(handler))
			answered(handler);
	if (has_children && (core->children->hung_up || clock_now() - handler->reaped > REAP_MS * UINT64_C(1000000))) {
		handler->reaped = clock_now();
		children_reap(core->children);
	}
}

static void *run_handler(void *argument)
{
	struct handler *handler = argument;
	struct core *core = handler->core;

	while (!atomic_load(&core->stop)) {
		read_messages(handler);
		if (atomic_load(&handler->has_wanted))
			serve_wanted(handler);
		if (handler->parked_count)
			faults_retry(handler);
		farewell_continue(handler);
		if (handler->in_flight == 0 || !spin(handler))
			sleep_until_needed(handler);
		else if (!handler->parked_count)
			sleep_until_needed(handler);
	}
	while (handler->in_flight)
		fetch_poll(handler);
	return NULL;
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = (unsigned)fd};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static unsigned at_most(uint64_t wanted, uint64_t limit)
{
	return (unsigned)(wanted < limit ? wanted : limit);
}

int handler_open(struct handler *handler, struct core *core, uint64_t budget, unsigned ahead)
{
	uint64_t share = budget / FRAMES_SHARE > FRAMES_MIN ? budget / FRAMES_SHARE : FRAMES_MIN;

	memset(handler, 0, sizeof *handler);
	handler->core = core;
	handler->drain = read_messages;
	follow_init(&handler->follow);
	spin_init(&handler->spin, core->spin_us);
	handler->epoll = -1;
	handler->demands = at_most(share, HANDLER_DEMANDS);
	handler->ahead = at_most(ahead, at_most(share, HANDLER_RUN_PAGES));
	handler->frame_count = handler->demands + HANDLER_RUNS * handler->ahead;
	pthread_mutex_init(&handler->wanted_lock, NULL);
	streams_init(&handler->far_streams, handler->ahead > 1 ? handler->ahead - 1 : 0);
	streams_init(&handler->new_streams, ZERO_AHEAD);
	streams_init(&handler->child_streams, handler->far_streams.limit);
	streams_init(&handler->child_new_streams, ZERO_AHEAD);
	for (unsigned i = 0; i < handler->demands; i++)
		handler->free_demands[handler->free_demand_count++] = (uint16_t)i;
	size_t bytes = (size_t)handler->frame_count * STORE_PAGE, zero_bytes = (size_t)HANDLER_RUN_PAGES * STORE_PAGE;
	void *frames = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *zeroes = mmap(NULL, zero_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handler->frames = frames == MAP_FAILED ? NULL : frames;
	handler->zeroes = zeroes == MAP_FAILED ? NULL : zeroes;
	if (!handler->frames || !handler->zeroes)
		return -ENOMEM;
	madvise(frames, bytes, MADV_DONTFORK);
	handler->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (handler->epoll < 0)
		return -errno;
	core->children->epoll = handler->epoll;
	if (core->uffd.sees_forks)
		forks_make_spare(core->children);
	int result = store_register(core->store, handler->frames, bytes, &handler->buffer);
	if (result == 0)
		fetch_claim_first(handler);
	if (result == 0)
		result = watch(handler->epoll, core->handler_kick.fd);
	if (result == 0)
		result = watch(handler->epoll, core->uffd.fd);
	return result;
}

/* Runs in the handler's thread, because only the thread that opens a queue may use it. */
static int open_queue(void *argument)
{
	struct handler *handler = argument;
	int result = store_queue_open(handler->core->store, &handler->queue);

	return result ? result : watch(handler->epoll, store_queue_fd(handler->queue));
}

int handler_start(struct handler *handler)
{
	int result = pager_thread_start(&handler->thread, "farpage-fault", open_queue, run_handler, handler);

	handler->running = result == 0;
	return result;
}

void handler_close(struct handler *handler)
{
	if (handler->running) {
		kick_ring(&handler->core->handler_kick);
		pthread_join(handler->thread, NULL);
	}
	store_queue_close(handler->queue);
	if (handler->buffer)
		store_deregister(handler->core->store, handler->buffer);
	if (handler->frames)
		munmap(handler->frames, (size_t)handler->frame_count * STORE_PAGE);
	if (handler->zeroes)
		munmap((void *)(uintptr_t)handler->zeroes, (size_t)HANDLER_RUN_PAGES * STORE_PAGE);
	if (handler->epoll >= 0) {
		close(handler->epoll);
		handler->core->children->epoll = -1;
	}
	pthread_mutex_destroy(&handler->wanted_lock);
}

void handler_will_need(struct handler *handler, uint64_t page, uint64_t count)
{
	pthread_mutex_lock(&handler->wanted_lock);
	handler->wanted = (struct wanted){.page = page, .end = page + count};
	atomic_store(&handler->has_wanted, true);
	pthread_mutex_unlock(&handler->wanted_lock);
	kick_ring(&handler->core->handler_kick);
}
