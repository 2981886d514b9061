#include "pager/handler.h"

#include "common/clock.h"
#include "common/log.h"
#include "pager/children.h"
#include "pager/thread.h"
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ZERO_AHEAD 32u  /* untouched pages filled at once when they are touched in order */
#define RUN_PIECE 16u   /* pages of one read of a read-ahead: the first pieces are mapped while the rest arrives */
#define POLLS_A_LOOK 4u /* polls of the store between two looks at new faults */
#define REAP_MS 100     /* how often to look for children that are gone */

static void park(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started,
		 bool stalled)
{
	struct core *core = handler->core;
	if (handler->parked_count == HANDLER_PARKED) {
		/* Let the thread fault again: its message comes back. */
		uffd_wake(child ? child->uffd : core->uffd.fd, core_address(core, page), STORE_PAGE);
		return;
	}
	handler->parked[handler->parked_count++] =
	    (struct parked){.page = page, .started = started, .child = child, .thread = thread, .stalled = stalled};
	atomic_store(&core->waiting, handler->parked_count);
}

/* --- Placing pages ---------------------------------------------------------------------------------------------- */

static void read_messages(struct handler *handler);

static void move(struct core *core, uint64_t page, enum page_state from, enum page_state to, uint32_t frame)
{
	if (!pages_move(&core->pages, page, from, to, frame)) {
		log_error("page %llu is %s and was to go from %s to %s", (unsigned long long)page,
			  page_state_name(page_state(pages_load(&core->pages, page))), page_state_name(from),
			  page_state_name(to));
		abort();
	}
}

/* Where the pages being placed come from, and where each goes back to if the program has unmapped it meanwhile. */
struct origin {
	enum page_state from, otherwise;
	uint32_t frame; /* of otherwise */
};
static const struct origin from_donor = {PAGE_FETCHING, PAGE_FAR, 0};
static const struct origin from_nowhere = {PAGE_FETCHING, PAGE_UNTOUCHED, 0};

static void placed(struct core *core, uint64_t page, uint32_t count, const struct origin *origin)
{
	for (uint32_t i = 0; i < count; i++) {
		move(core, page + i, origin->from, PAGE_RESIDENT, 0);
		residents_push(&core->residents, page + i);
	}
}

/*
 * Copies @count pages into the program, wakes who waits for them, and calls them resident. A page that turns out to be
 * there already stays as it is.
 */
static void place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin)
{
	struct core *core = handler->core;
	uint32_t at_once = count; /* one call cannot cross from one mapping to the next: then page by page */
	for (uint32_t done = 0; done < count;) {
		size_t bytes = 0;
		uint32_t length = count - done < at_once ? count - done : at_once;
		char *to = core_address(core, page + done);
		int result =
		    uffd_copy(core->uffd.fd, to, data + (size_t)done * STORE_PAGE, (size_t)length * STORE_PAGE, &bytes);
		uint32_t copied = (uint32_t)(bytes / STORE_PAGE);
		placed(core, page + done, copied, origin);
		done += copied;
		if (result == 0)
			continue;
		if (result == -EAGAIN) {
			read_messages(handler); /* a fork is under way, and waits for us to read of it */
		} else if (result == -EEXIST) {
			placed(core, page + done, 1, origin);
			uffd_wake(core->uffd.fd, core_address(core, page + done), STORE_PAGE);
			done++;
		} else if (at_once > 1) {
			at_once = 1;
		} else {
			move(core, page + done, origin->from, origin->otherwise, origin->frame);
			core_release(core, 1);
			done++;
		}
	}
}

/* The page is gone for good: whoever touches it gets SIGBUS. */
static void lose(struct handler *handler, const struct fetch *fetch, int status)
{
	struct core *core = handler->core;
	for (uint32_t i = 0; i < fetch->count; i++) {
		uint64_t page = fetch->page + i;
		if (count_add(&core->counters->lost, 1), __atomic_load_n(&core->counters->lost, __ATOMIC_RELAXED) == 1)
			log_error("memory at %p of process %d is lost (%s): SIGBUS to whoever touches it",
				  (void *)core_address(core, page), getpid(), strerror(-status));
		move(core, page, PAGE_FETCHING, PAGE_LOST, 0);
		if (uffd_poison(&core->uffd, core->uffd.fd, core_address(core, page), STORE_PAGE) && fetch->thread)
			syscall(SYS_tgkill, getpid(), fetch->thread, SIGBUS);
	}
	core_release(core, fetch->count);
}

/* --- Answers of the store --------------------------------------------------------------------------------------- */

static void free_fetch(struct handler *handler, unsigned slot)
{
	struct fetch *fetch = &handler->fetches[slot];
	fetch->used = false;
	handler->in_flight--;
	if (fetch->group)
		handler->group_pending[fetch->group - 1] -= fetch->count;
	else
		handler->free_demands[handler->free_demand_count++] = (uint16_t)slot;
}

/* A read-ahead that failed is not yet a loss: a demand for the page will tell. */
static void give_up_ahead(struct handler *handler, const struct fetch *fetch)
{
	struct core *core = handler->core;
	for (uint32_t i = 0; i < fetch->count; i++) {
		move(core, fetch->page + i, PAGE_FETCHING, PAGE_FAR, 0);
		uffd_wake(core->uffd.fd, core_address(core, fetch->page + i), STORE_PAGE);
	}
	core_release(core, fetch->count);
}

static void answer_child(struct handler *handler, const struct fetch *fetch, const char *data, int status)
{
	struct core *core = handler->core;
	atomic_fetch_sub(&core->children->reads, 1);
	if (fetch->child->uffd < 0 || !children_want(core->children, fetch->child, fetch->page))
		return; /* gone, or handed over meanwhile */
	if (status)
		children_deny(core->children, fetch->child, fetch->page, "is lost with its donor");
	else if (children_answer(core->children, fetch->child, fetch->page, data) == -EAGAIN)
		park(handler, fetch->page, fetch->child, fetch->thread, fetch->started, false);
}

static void fetched(struct handler *handler, const struct store_done *done)
{
	struct core *core = handler->core;
	unsigned slot = (unsigned)done->cookie;
	struct fetch *fetch = &handler->fetches[slot];
	const char *data = handler->frames + (size_t)fetch->frame * STORE_PAGE;
	if (fetch->child) {
		answer_child(handler, fetch, data, done->status);
	} else if (done->status == 0) {
		place(handler, fetch->page, data, fetch->count, &from_donor);
		if (fetch->group == 0)
			histogram_record(&core->counters->fault_ns, clock_now() - fetch->started);
		count_add(&core->counters->fetched, fetch->count);
	} else if (fetch->group) {
		give_up_ahead(handler, fetch);
	} else {
		lose(handler, fetch, done->status);
	}
	free_fetch(handler, slot);
}

static unsigned poll_store(struct handler *handler)
{
	struct store_done dones[32];
	int count = store_poll(handler->queue, dones, 32);
	for (int i = 0; i < count; i++)
		fetched(handler, &dones[i]);
	return count > 0 ? (unsigned)count : 0;
}

/* --- Reading ---------------------------------------------------------------------------------------------------- */

static void submit(struct handler *handler, unsigned slot)
{
	struct fetch *fetch = &handler->fetches[slot];
	struct store_io io = {
	    .op = STORE_READ,
	    .count = fetch->count,
	    .page = fetch->page,
	    .data = handler->frames + (size_t)fetch->frame * STORE_PAGE,
	    .buffer = handler->buffer,
	    .cookie = slot,
	};
	fetch->used = true;
	handler->in_flight++;
	while (store_submit(handler->queue, &io, 1) < 1)
		poll_store(handler);
}

static void fetch_one(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started)
{
	while (handler->free_demand_count == 0)
		poll_store(handler);
	unsigned slot = handler->free_demands[--handler->free_demand_count];
	handler->fetches[slot] = (struct fetch){
	    .page = page, .started = started, .child = child, .thread = thread, .frame = slot, .count = 1};
	submit(handler, slot);
}

/* Reads up to @length far pages from @page on, as long as they are far and there is room beyond what demands need. */
static unsigned fetch_ahead(struct handler *handler, uint64_t page, unsigned length)
{
	struct core *core = handler->core;
	unsigned group = 0, count = 0;
	while (group < HANDLER_RUNS && handler->group_pending[group])
		group++;
	if (group == HANDLER_RUNS)
		return 0;
	if (page + length > core->pages.count)
		length = (unsigned)(core->pages.count - page);
	length = (unsigned)core_claim(core, length, core->low / 2);
	while (count < length && pages_move(&core->pages, page + count, PAGE_FAR, PAGE_FETCHING, 0))
		count++;
	core_release(core, length - count);
	handler->group_pending[group] = (uint16_t)count;
	uint32_t first = HANDLER_DEMANDS + group * HANDLER_RUN_PAGES;
	for (unsigned done = 0; done < count; done += RUN_PIECE) {
		unsigned piece = count - done < RUN_PIECE ? count - done : RUN_PIECE, slot = first + done;
		handler->fetches[slot] = (struct fetch){
		    .page = page + done, .frame = slot, .count = (uint16_t)piece, .group = (uint8_t)(group + 1)};
		submit(handler, slot);
	}
	count_add(&core->counters->prefetched, count);
	return count;
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
		unsigned count = fetch_ahead(handler, wanted->page, length);
		wanted->page += count;
		if (count == 0)
			break;
	}
	/* No room is an answer too: what is wanted yields to what is used. */
	if (wanted->page >= wanted->end || core_free(handler->core) < handler->core->low)
		atomic_store(&handler->has_wanted, false);
	pthread_mutex_unlock(&handler->wanted_lock);
}

/* --- Faults of the program -------------------------------------------------------------------------------------- */

/* A page that was never touched, and, when pages are touched in order, those after it. */
static bool fill_zeroes(struct handler *handler, uint64_t page)
{
	struct core *core = handler->core;
	if (core_claim(core, 1, 0) == 0)
		return false;
	if (!pages_move(&core->pages, page, PAGE_UNTOUCHED, PAGE_FETCHING, 0)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
		return true;
	}
	unsigned ahead = streams_note(&handler->new_streams, page), count = 0;
	if (ahead) {
		uint64_t end = core->window->high;
		if (page + 1 + ahead > end)
			ahead = page + 1 < end ? (unsigned)(end - page - 1) : 0;
		ahead = (unsigned)core_claim(core, ahead, core->low);
		while (count < ahead && pages_move(&core->pages, page + 1 + count, PAGE_UNTOUCHED, PAGE_FETCHING, 0))
			count++;
		core_release(core, ahead - count);
		streams_extend(&handler->new_streams, page, count);
	}
	place(handler, page, handler->zeroes, 1 + count, &from_nowhere);
	return true;
}

static bool bring_back(struct handler *handler, uint64_t page, uint32_t word)
{
	struct core *core = handler->core;
	if (core_claim(core, 1, 0) == 0)
		return false;
	uint32_t frame = page_frame(word);
	if (!pages_move(&core->pages, page, PAGE_BUFFERED, PAGE_RETURNING, frame)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE); /* far by now: it faults again */
		return true;
	}
	count_add(&core->counters->faults_buffered, 1);
	const struct origin from_buffer = {PAGE_RETURNING, PAGE_BUFFERED, frame};
	place(handler, page, victims_frame(&core->victims, frame), 1, &from_buffer);
	return true;
}

static bool bring_in(struct handler *handler, uint64_t page, pid_t thread, uint64_t started)
{
	struct core *core = handler->core;
	if (core_claim(core, 1, 0) == 0)
		return false;
	if (!pages_move(&core->pages, page, PAGE_FAR, PAGE_FETCHING, 0)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
		return true;
	}
	count_add(&core->counters->faults_far, 1);
	fetch_one(handler, page, NULL, thread, started);
	unsigned ahead = streams_note(&handler->far_streams, page);
	if (ahead)
		streams_extend(&handler->far_streams, page, fetch_ahead(handler, page + 1, ahead));
	return true;
}

/*
 * A resident page that is missing: another thread's fault was answered meanwhile, or the program dropped the page
 * behind our back, and then it reads as zeroes. Held as FETCHING, so that the evictor cannot take it in between.
 */
static void resolve_resident(struct handler *handler, uint64_t page)
{
	struct core *core = handler->core;
	if (pages_move(&core->pages, page, PAGE_RESIDENT, PAGE_FETCHING, 0))
		place(handler, page, handler->zeroes, 1, &from_nowhere);
	else
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
}

static void fault(struct handler *handler, uint64_t page, pid_t thread, uint64_t started)
{
	struct core *core = handler->core;
	uint32_t word = pages_load(&core->pages, page);
	bool had_room = true;
	switch (page_state(word)) {
	case PAGE_UNTOUCHED:
		had_room = fill_zeroes(handler, page);
		break;
	case PAGE_BUFFERED:
		had_room = bring_back(handler, page, word);
		break;
	case PAGE_FAR:
		had_room = bring_in(handler, page, thread, started);
		break;
	case PAGE_RESIDENT:
		resolve_resident(handler, page);
		break;
	case PAGE_FETCHING:
	case PAGE_RETURNING:
		break; /* its answer wakes everyone */
	case PAGE_EVICTING:
		if (thread == atomic_load(&core->evictor_thread))
			uffd_copy(core->uffd.fd, core_address(core, page), handler->zeroes, STORE_PAGE, NULL);
		else
			park(handler, page, NULL, thread, started, false);
		break;
	case PAGE_DISCARDING:
		park(handler, page, NULL, thread, started, false);
		break;
	case PAGE_LOST:
		if (uffd_poison(&core->uffd, core->uffd.fd, core_address(core, page), STORE_PAGE))
			syscall(SYS_tgkill, getpid(), thread, SIGBUS);
		break;
	case PAGE_STATES:
		break;
	}
	if (!had_room) {
		count_add(&core->counters->stalls, 1);
		park(handler, page, NULL, thread, started, true);
	}
}

/* --- Faults of children ----------------------------------------------------------------------------------------- */

static void child_fault(struct handler *handler, struct child *child, uint64_t page, pid_t thread, uint64_t started)
{
	struct core *core = handler->core;
	child->pid = thread;
	if (!children_want(core->children, child, page)) {
		if (children_answer(core->children, child, page, NULL) == -EAGAIN)
			park(handler, page, child, thread, started, false);
		return;
	}
	/* Counted before the look: the evictor counts reads after it has taken the page. */
	atomic_fetch_add(&core->children->reads, 1);
	uint32_t word = pages_load(&core->pages, page);
	if (page_state(word) == PAGE_EVICTING || page_state(word) == PAGE_DISCARDING || (word & PAGE_WRITING)) {
		atomic_fetch_sub(&core->children->reads, 1);
		park(handler, page, child, thread, started, false);
	} else {
		fetch_one(handler, page, child, thread, started);
	}
}

/* --- Messages --------------------------------------------------------------------------------------------------- */

struct messages {
	struct uffd_message items[64];
	unsigned count;
};

static void take_messages(struct messages *messages, int fd)
{
	int count;
	do {
		unsigned room = (unsigned)(sizeof messages->items / sizeof messages->items[0]) - messages->count;
		count = room ? uffd_read(fd, messages->items + messages->count, room) : 0;
		messages->count += count > 0 ? (unsigned)count : 0;
	} while (count == 16);
}

static void dispatch(struct handler *handler, struct child *child, const struct messages *messages)
{
	struct core *core = handler->core;
	uint64_t now = clock_now();
	/* Forks first: what was far when the child was made must be known before any page changes place. */
	for (unsigned i = 0; i < messages->count; i++)
		if (messages->items[i].kind == UFFD_FORKED)
			children_add(core->children, child, messages->items[i].child);
	for (unsigned i = 0; i < messages->count; i++) {
		const struct uffd_message *message = &messages->items[i];
		uint64_t page = core_page(core, message->address);
		if (message->kind == UFFD_MISSING && child) {
			child_fault(handler, child, page, message->thread, now);
		} else if (message->kind == UFFD_MISSING) {
			count_add(&core->counters->faults, 1);
			fault(handler, page, message->thread, now);
		} else if (message->kind == UFFD_PROTECTED) {
			/* The evictor is copying it out, and drops or releases it in a moment. */
			if (page_state(pages_load(&core->pages, page)) == PAGE_EVICTING)
				park(handler, page, NULL, message->thread, now, false);
			else
				uffd_protect(&core->uffd, core_address(core, page), STORE_PAGE, false);
		}
	}
	if (messages->count && !child)
		follow_thread(&handler->follow, messages->items[messages->count - 1].thread, now);
}

static void read_messages(struct handler *handler)
{
	struct core *core = handler->core;
	struct messages messages = {.count = 0};
	take_messages(&messages, core->uffd.fd);
	dispatch(handler, NULL, &messages);
	if (atomic_load_explicit(&core->children->count, memory_order_relaxed) == 0)
		return;
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *child = &core->children->entries[i];
		if (child->uffd < 0)
			continue;
		messages.count = 0;
		take_messages(&messages, child->uffd);
		dispatch(handler, child, &messages);
	}
}

static void retry_parked(struct handler *handler)
{
	struct core *core = handler->core;
	struct parked parked[64];
	handler->settlements = atomic_load(&core->settlements);
	/* In portions: each is tried once, and may park itself again behind the others. */
	for (unsigned left = handler->parked_count; left;) {
		unsigned count = left < 64 ? left : 64;
		memcpy(parked, handler->parked, count * sizeof parked[0]);
		handler->parked_count -= count;
		memmove(handler->parked, handler->parked + count, handler->parked_count * sizeof parked[0]);
		atomic_store(&core->waiting, handler->parked_count);
		left -= count;
		for (unsigned i = 0; i < count; i++) {
			struct parked *it = &parked[i];
			if (it->child && it->child->uffd >= 0)
				child_fault(handler, it->child, it->page, it->thread, it->started);
			else if (!it->child)
				fault(handler, it->page, it->thread, it->started);
		}
	}
}

/* --- The thread ------------------------------------------------------------------------------------------------- */

/* Polls while reads are in flight; true when all are answered, false when they take longer than spinning pays. */
static bool spin(struct handler *handler)
{
	uint64_t deadline = clock_now() + handler->core->spin_us * 1000ull;
	for (unsigned polls = 1; handler->in_flight; polls++) {
		if (poll_store(handler)) {
			if (handler->in_flight == 0)
				return true;
			deadline = clock_now() + handler->core->spin_us * 1000ull;
		} else {
			sched_yield();
		}
		if (polls % POLLS_A_LOOK == 0) {
			read_messages(handler);
			if (clock_now() > deadline)
				return false;
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
	kick_prepare(&core->handler_kick);
	bool ready = atomic_load(&core->stop) || atomic_load(&handler->has_wanted) ||
		     (handler->parked_count && atomic_load(&core->settlements) != handler->settlements);
	int count = 0;
	if (!ready && (handler->in_flight == 0 || store_arm(handler->queue) == 0))
		count = epoll_wait(handler->epoll, events, 8, timeout);
	kick_cancel(&core->handler_kick);
	/* With nothing in flight it still has something to say when a donor goes. */
	for (int i = 0; i < count; i++)
		if (events[i].data.fd == store_queue_fd(handler->queue))
			poll_store(handler);
	if (has_children)
		children_reap(core->children);
}

static void *run_handler(void *argument)
{
	struct handler *handler = argument;
	struct core *core = handler->core;
	follow_init(&handler->follow);
	while (!atomic_load(&core->stop)) {
		read_messages(handler);
		if (atomic_load(&handler->has_wanted))
			serve_wanted(handler);
		if (handler->parked_count)
			retry_parked(handler);
		if (handler->in_flight == 0 || !spin(handler))
			sleep_until_needed(handler);
		else if (!handler->parked_count)
			sleep_until_needed(handler);
	}
	while (handler->in_flight)
		poll_store(handler);
	return NULL;
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

uint64_t handler_memory(const struct handler *handler)
{
	return sizeof *handler + (uint64_t)handler->frame_count * STORE_PAGE;
}

int handler_open(struct handler *handler, struct core *core, unsigned ahead)
{
	memset(handler, 0, sizeof *handler);
	handler->core = core;
	handler->epoll = -1;
	handler->ahead = ahead < HANDLER_RUN_PAGES ? ahead : HANDLER_RUN_PAGES;
	handler->frame_count = HANDLER_DEMANDS + HANDLER_RUNS * HANDLER_RUN_PAGES;
	pthread_mutex_init(&handler->wanted_lock, NULL);
	streams_init(&handler->far_streams, handler->ahead > 1 ? handler->ahead - 1 : 0);
	streams_init(&handler->new_streams, ZERO_AHEAD);
	for (unsigned i = 0; i < HANDLER_DEMANDS; i++)
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
	int result = store_register(core->store, handler->frames, bytes, &handler->buffer);
	if (result == 0)
		result = watch(handler->epoll, core->handler_kick.fd);
	if (result == 0)
		result = watch(handler->epoll, core->uffd.fd);
	return result;
}

/* On the thread itself, for the reason given in evictor.c. */
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
	if (handler->epoll >= 0)
		close(handler->epoll);
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
