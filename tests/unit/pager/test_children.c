/* Forked children: which pages are far for each child, and when contents kept only for children are given back. */
#include "pager/children.h"
#include "pager/forks.h"
#include "tests/lib/tap.h"
#include "tests/unit/pager/pager_over.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* --- The snapshot ------------------------------------------------------------------------------------------------ */

/* For each state of a page, says if a child that is forked now lacks the page. Earlier marks do not matter. */
static const struct {
	enum page_state state;
	bool far;
} lacks[] = {
    {PAGE_UNTOUCHED, false}, {PAGE_RESIDENT, false}, {PAGE_BUFFERED, true}, {PAGE_RETURNING, true},   {PAGE_FAR, true},
    {PAGE_FETCHING, true},   {PAGE_FILLING, false},  {PAGE_LOST, true},     {PAGE_DISCARDING, false},
};
#define STATES (sizeof lacks / sizeof lacks[0])

static bool is_far(struct children *children, uint64_t page)
{
	uint64_t home;

	return children_look(children, &children->entries[0], page, &home) == CHILD_FAR && home == page;
}

static void snapshot_holds_what_is_far(void)
{
	static struct pager_counters counters;
	struct window window = {.high = 2 * STATES, .length = (size_t)2 * STATES * STORE_PAGE};
	struct core core = {.window = &window, .counters = &counters};
	struct children children;

	pages_open(&core.pages, 2 * STATES);
	children_open(&children, &core);
	children.epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < STATES; i++) {
		atomic_store(&core.pages.words[2 * i], lacks[i].state);
		atomic_store(&core.pages.words[2 * i + 1], lacks[i].state | PAGE_SNAPSHOT);
	}
	forks_add(&children, NULL, eventfd(0, EFD_CLOEXEC));
	for (size_t i = 0; i < STATES; i++) {
		const char *name = pages_state_name(lacks[i].state);
		bool marked = pages_load(&core.pages, 2 * i) & PAGE_SNAPSHOT;

		ok(is_far(&children, 2 * i) == lacks[i].far && marked == lacks[i].far,
		   "a page that is %s is %s for a child", name, lacks[i].far ? "far" : "not far");
		ok(is_far(&children, 2 * i + 1) == lacks[i].far && (pages_load(&core.pages, 2 * i + 1) & PAGE_SNAPSHOT),
		   "a page that is %s is %s for a later child, and stays kept for the earlier child", name,
		   lacks[i].far ? "far" : "not far");
	}
	children_count(&children, &children.entries[0], 7);
	children_count(&children, &children.entries[0], -2);
	ok(counters_children(&counters) == 5 * STORE_PAGE, "the pages of a child count as local memory");
	close(children.epoll);
	children_close(&children);
	ok(counters_children(&counters) == 0, "the pages of a child that has ended do not count any more");
	pages_close(&core.pages);
}

/* --- A denial while the child forks ------------------------------------------------------------------------------ */

static void *fork_once(void *unused)
{
	(void)unused;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	return NULL;
}

/* If farpage poisoned a page before it read the message of the fork, the poison would not reach the child. The
   child's reader would wait for ever. */
static void denial_waits_until_a_fork_is_read(void)
{
	if (!CAN_FORK) {
		tap_skip("a page is not denied before the child's fork is read", CANNOT_FORK);
		return;
	}
	void *base = mmap(NULL, 2 * STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct window window = {.base = base, .length = STORE_PAGE, .high = 1};
	struct pager_counters counters = {0};
	struct core core = {.window = &window, .counters = &counters};
	struct children children = {.core = &core};
	struct uffd_message message;
	pthread_t thread;
	if (uffd_open(base, STORE_PAGE, (char *)base + STORE_PAGE, STORE_PAGE, &core.uffd))
		abort();
	if (!core.uffd.can_poison || !core.uffd.sees_forks) {
		tap_skip("a page is not denied before the child's fork is read", "this kernel cannot poison pages");
		return;
	}
	struct child child = {.uffd = core.uffd.fd, .denied = true};
	struct pollfd forked = {.fd = core.uffd.fd, .events = POLLIN};
	pthread_create(&thread, NULL, fork_once, NULL);
	poll(&forked, 1, -1);
	ok(children_deny(&children, &child, 0, "") == -EAGAIN, "a page is not denied before the child's fork is read");
	bool read = uffd_read(core.uffd.fd, &message, 1) == 1 && message.kind == UFFD_FORKED;
	int result;
	while ((result = children_deny(&children, &child, 0, "")) == -EAGAIN)
		sched_yield(); /* until the fork returns */
	ok(read && result == 0, "the page is denied after the child's fork is read");
	close(message.child);
	pthread_join(thread, NULL);
	uffd_close(&core.uffd);
	munmap(base, 2 * STORE_PAGE);
}

/* --- A sweep in the middle of a discard -------------------------------------------------------------------------- */

/* Pages of one range. KEPT is kept only for the child. HELD is discarded while the child is being forgotten. PLAIN is
   not kept at all. */
enum { KEPT, HELD, PLAIN, RANGE };

static struct {
	const struct store_ops *inner;
	atomic_bool armed;
	_Atomic int swept; /* 1 after the sweep has passed the page KEPT */
	int child_lives;   /* closing it ends the child */
	pid_t child;
} hooks;

/* The sweep after the child's end calls this for KEPT. The discard of HELD and PLAIN calls it for PLAIN, midway. */
static void discard_between(struct store *store, uint64_t page, uint64_t count)
{
	hooks.inner->discard(store, page, count);
	if (!atomic_load(&hooks.armed))
		return;
	if (page == KEPT)
		atomic_store(&hooks.swept, 1);
	if (page != PLAIN)
		return;
	close(hooks.child_lives);
	waitpid(hooks.child, NULL, 0);
	while (!atomic_load(&hooks.swept))
		usleep(1000);
}

static void page_out(struct over *over, char *memory, unsigned first, unsigned count, char byte)
{
	for (unsigned page = first; page < first + count; page++)
		memset(memory + page * STORE_PAGE, byte, STORE_PAGE);
	farpage_advise(over->farpage, memory + first * STORE_PAGE, count * STORE_PAGE, FARPAGE_PAGEOUT);
}

static pid_t fork_until_closed(int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		abort();
	pid_t child = fork();
	if (child == 0) {
		char byte;

		close(fds[1]);
		_exit(read(fds[0], &byte, 1) != 0);
	}
	close(fds[0]);
	*ret_fd = fds[1];
	return child;
}

static void contents_kept_for_an_ended_child_are_given_back(void)
{
	if (!CAN_FORK) {
		tap_skip("a page that a child may ask for stays on the donors", CANNOT_FORK);
		return;
	}
	struct over over;
	struct store_stats stats;
	if (over_open(&over, 8 * MIB, 16 * MIB, NULL))
		abort();
	struct store_ops ops = *over.inner->ops;
	hooks.inner = over.inner->ops;
	ops.discard = discard_between;
	over.inner->ops = &ops;
	char *memory = over_map(&over, RANGE * STORE_PAGE);
	page_out(&over, memory, 0, RANGE, 1);
	hooks.child = fork_until_closed(&hooks.child_lives);
	page_out(&over, memory, PLAIN, 1, 2); /* the old contents move to a shadow */
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_DISCARD);
	store_stats(over.inner, &stats);
	ok(stats.pages_live == RANGE + 1,
	   "pages that a child may ask for, and what a changed page was, stay on the donors (%llu pages)",
	   (unsigned long long)stats.pages_live);
	atomic_store(&hooks.armed, true);
	farpage_advise(over.farpage, memory + HELD * STORE_PAGE, 2 * STORE_PAGE, FARPAGE_DISCARD);
	store_stats(over.inner, &stats);
	ok(stats.pages_live == 0,
	   "no page stays on the donors if the child ends in the middle of a discard (%llu pages)",
	   (unsigned long long)stats.pages_live);
	over.inner->ops = hooks.inner;
	over_close(&over);
}

/* --- A child that reads in order --------------------------------------------------------------------------------- */

/* Pages that a child reads in order. The parent has changed those from CHANGED on, and discarded those from DISCARDED
   on, before the child reads. The child has written the page WRITTEN. */
enum { CHANGED = 256, DISCARDED = 512, UNCHANGED = 528, READ = 1024, WRITTEN = 40 };

static struct {
	const struct store_ops *inner;
	atomic_bool fails;
	bool is_ahead[4096]; /* for each cookie: the last read was a read-ahead */
} reads;

static int submit_noted(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (ios[i].cookie < 4096)
			reads.is_ahead[ios[i].cookie] = ios[i].op == STORE_READ && ios[i].count > 1;
	return reads.inner->submit(queue, ios, count);
}

static int poll_failing(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	int count = reads.inner->poll(queue, dones, max);

	for (int i = 0; i < count; i++)
		if (atomic_load(&reads.fails) && dones[i].cookie < 4096 && reads.is_ahead[dones[i].cookie])
			dones[i].status = -EIO;
	return count;
}

static int page_at(const char *memory, unsigned page)
{
	int value;

	memcpy(&value, memory + page * STORE_PAGE, sizeof value);
	return value;
}

static void number_pages(struct over *over, char *memory, unsigned first, unsigned end, int plus)
{
	for (unsigned page = first; page < end; page++) {
		int value = (int)page + plus;

		memcpy(memory + page * STORE_PAGE, &value, sizeof value);
	}
	farpage_advise(over->farpage, memory + first * STORE_PAGE, (end - first) * STORE_PAGE, FARPAGE_PAGEOUT);
}

/* Returns 0 if the child sees the pages as they were at the fork, and what it has written itself. */
static int read_in_order(char *memory, int go)
{
	char byte;
	int own = -1;

	memcpy(memory + WRITTEN * STORE_PAGE, &own, sizeof own);
	if (read(go, &byte, 1))
		return 2;
	for (unsigned page = 0; page < READ; page++)
		if (page_at(memory, page) != (page == WRITTEN ? -1 : (int)page + 1))
			return 1;
	return 0;
}

/* Returns true if the child read what it should. Sets *@ret_far to its faults that waited for a donor. */
static bool child_reads(struct over *over, char *memory, uint64_t *ret_far)
{
	struct farpage_stats before, after;
	int go[2], status;

	number_pages(over, memory, 0, READ, 1);
	if (pipe2(go, O_CLOEXEC))
		abort();
	pid_t child = fork();
	if (child == 0) {
		close(go[1]);
		_exit(read_in_order(memory, go[0]));
	}
	close(go[0]);
	number_pages(over, memory, CHANGED, DISCARDED, 1000000);
	farpage_advise(over->farpage, memory + DISCARDED * STORE_PAGE, (UNCHANGED - DISCARDED) * STORE_PAGE,
		       FARPAGE_DISCARD);
	farpage_get_stats(over->farpage, &before);
	close(go[1]);
	waitpid(child, &status, 0);
	farpage_get_stats(over->farpage, &after);
	*ret_far = after.faults_far - before.faults_far;
	return status == 0;
}

static void pages_are_read_ahead_for_a_child(void)
{
	if (!CAN_FORK) {
		tap_skip("pages are read ahead for a child that reads in order", CANNOT_FORK);
		return;
	}
	const struct store_faults delays = {.seed = 1, .delay = 1 << 15, .delay_polls = 8};
	struct over over;
	uint64_t far;
	if (over_open(&over, 16 * MIB, 16 * MIB, &delays))
		abort();
	struct store_ops ops = *over.store->ops;
	reads.inner = over.store->ops;
	ops.submit = submit_noted;
	ops.poll = poll_failing;
	over.store->ops = &ops;
	char *memory = over_map(&over, READ * STORE_PAGE);
	bool right = child_reads(&over, memory, &far);
	ok(right && far < READ / 4,
	   "pages are read ahead for a child that reads in order: it waits %llu times for %u pages",
	   (unsigned long long)far, READ);
	atomic_store(&reads.fails, true);
	right = child_reads(&over, memory, &far);
	ok(right && far > READ / 4, "if read-aheads fail, the child waits for pages alone (%llu times)",
	   (unsigned long long)far);
	over.store->ops = reads.inner;
	over_close(&over);
}

/* --- A child that is refused ------------------------------------------------------------------------------------- */

int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
static int epoll_error; /* errno of epoll_ctl(2), or 0 */

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	if (!epoll_error)
		return __real_epoll_ctl(epoll, operation, fd, event);
	errno = epoll_error;
	return -1;
}

static bool uses_all_descriptors; /* when a child is added */

static void use_all_descriptors(void)
{
	struct rlimit limit = {64, 64};

	setrlimit(RLIMIT_NOFILE, &limit);
	while (dup(STDOUT_FILENO) >= 0)
		;
}

/* Adds @count children without far pages. Returns what is logged. */
static const char *lines_of_children(unsigned count)
{
	static char said[4096];
	static struct pager_counters counters;
	struct window window = {.high = 1, .length = STORE_PAGE};
	struct core core = {.window = &window, .counters = &counters};
	struct children children;
	int saved = dup(STDERR_FILENO), lines = memfd_create("lines", MFD_CLOEXEC);

	pages_open(&core.pages, 1);
	children_open(&children, &core);
	children.epoll = epoll_create1(EPOLL_CLOEXEC);
	dup2(lines, STDERR_FILENO);
	/* The probe of children_remove_ended() answers ENOTTY for an eventfd, so no child counts as gone. */
	for (unsigned i = 0; i < count; i++) {
		int uffd = eventfd(0, EFD_CLOEXEC);

		if (uses_all_descriptors)
			use_all_descriptors();
		forks_add(&children, NULL, uffd);
	}
	dup2(saved, STDERR_FILENO);
	close(saved);
	memset(said, 0, sizeof said);
	if (pread(lines, said, sizeof said - 1, 0) < 0)
		abort();
	close(lines);
	close(children.epoll);
	children_close(&children);
	pages_close(&core.pages);
	return said;
}

/* Uses up the hard limit, so it runs in a process of its own. */
static bool child_without_room_is_refused(void)
{
	pid_t process = fork();
	int status;

	if (process == 0) {
		uses_all_descriptors = true;
		_exit(!strstr(lines_of_children(1), strerror(EMFILE)));
	}
	return waitpid(process, &status, 0) == process && status == 0;
}

static void refusal_of_a_child_names_its_cause(void)
{
	ok(!*lines_of_children(CHILDREN_MAX), "the largest number of children is accepted without a line");
	const char *said = lines_of_children(CHILDREN_MAX + 1);
	ok(strstr(said, "more than 256 living children"), "one more child is refused because there are too many");
	epoll_error = ENOSPC;
	said = lines_of_children(1);
	epoll_error = 0;
	ok(strstr(said, strerror(ENOSPC)) && !strstr(said, "living children"),
	   "a child that cannot be watched is refused with the error of epoll_ctl(2)");
	ok(child_without_room_is_refused(), "a child is refused if the next one would have no descriptor");
}

int main(void)
{
	snapshot_holds_what_is_far();
	denial_waits_until_a_fork_is_read();
	contents_kept_for_an_ended_child_are_given_back();
	pages_are_read_ahead_for_a_child();
	refusal_of_a_child_names_its_cause();
	return tap_done();
}
