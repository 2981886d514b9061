/*
 * start: starts the pager. A thread of its own, the starter, does this. A thread of the program could not do it,
 * because such a thread may hold locks, for example of the program's malloc. The start may need these locks to create
 * threads and to call libraries.
 *
 * Theory of operation. Without a pager, memory has no bound. So when the start is due, a thread of the program that
 * uses more of the window waits until the pager runs. Its signals stay unblocked, so that the process can be ended. The
 * thread waits for at most 10 s (1 s if the program has its own malloc), because it may hold a lock that the start
 * needs. After that, each further use of the window waits for STEP, 10 ms. So memory grows slowly until the pager runs,
 * or until the start has failed, logged the reason and ended the process.
 *
 * Usually the thread that finds the start due creates the starter, so small programs never pay for it. If the
 * program has its own malloc, pthread_create() would call that malloc, perhaps while the caller holds its lock. In
 * such a program the library's constructor creates the starter and farpage's other threads
 * (thread_spares_prepare()). These threads sleep until they are needed. A forked child creates its own starter and
 * threads.
 *
 * An orphan (child.c) may have lost rights that the start needs, for example to read the key. If its start fails, it
 * goes on without a pager.
 *
 * Forks wait until a running start has ended. Lock order: under_way, then preload.lock.
 */
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "pager/preload/latch.h"
#include "pager/preload/preload.h"
#include "pager/preload/report.h"
#include "pager/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define STARTER_STACK (512u << 10)
#define NS_MS UINT64_C(1000000)
#define NS_S UINT64_C(1000000000)
#define PATIENCE (10000 * NS_MS)
#define PATIENCE_OWN_MALLOC (1000 * NS_MS)
#define STEP (10 * NS_MS)
#define FILES 40u /* the pager needs about 24, and 4 for each of a few donors */

static struct {
	pthread_mutex_t under_way; /* held by the starter while it starts */
	bool ready;                /* set by the constructor; no start before */
	bool made;                 /* the starter exists or is being created; atomic */
	struct latch wanted;       /* set when the start is due; the starter waits for it */
	struct latch done;         /* set when the pager runs; threads of the program wait for it */
	uint64_t begun;            /* clock_now() when the start became due, or 0; atomic */
} start = {.under_way = PTHREAD_MUTEX_INITIALIZER};

/* Ends the process if an option needs librdmacm or OpenSSL, because these libraries would call the program's
   malloc. */
static void check_own_malloc(const struct farpage_options *options)
{
	for (unsigned i = 0; i < options->donor_count; i++)
		if (strncmp(options->donors[i], "tcp:", 4) != 0)
			preload_give_up(
			    "this program brings its own malloc: it can be given far memory of tcp:// donors only");
	if (options->encrypt)
		preload_give_up("this program brings its own malloc: its far memory cannot be encrypted");
}

/* Ends the process after a reason was logged. An orphan is not ended: its memory was local until now, and stays so. */
static void fail(void)
{
	if (!preload.orphan)
		preload_give_up(NULL);
	log_error(
	    "process %d was forked from one that has ended, and cannot start a pager of its own: its memory stays on "
	    "this machine",
	    getpid());
	preload.allocated = INT64_MIN / 2; /* never starts again */
	preload.start_due = false;
}

/* Returns true if the process may use userfaultfd. Otherwise logs the reason. */
static bool may_page(void)
{
	int fd = uffd_explain(uffd_new(0));

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Returns true if the process may open enough files for the pager. Otherwise logs the reason. The start opens files in
   many places, and some of them could not say what is wrong. */
static bool may_open(void)
{
	int files[FILES] = {open("/", O_PATH | O_CLOEXEC)};
	unsigned count = files[0] >= 0;

	while (count && count < FILES && (files[count] = fcntl(files[0], F_DUPFD_CLOEXEC, 0)) >= 0)
		count++;
	for (unsigned i = 0; i < count; i++)
		close(files[i]);
	if (count == FILES)
		return true;
	log_error("process %d may open only %u more files, and farpage needs %u: raise `ulimit -n`", getpid(), count,
		  FILES);
	return false;
}

/* Starts the pager, or calls fail(). */
static void start_pager(void)
{
	const struct settings *settings = &preload.settings;
	/* If the program has its own malloc, the pager may use only the donors that check_own_malloc() has checked. So
	   it does not follow the donors file. */
	const char *donors_file = preload.own_malloc ? NULL : settings->donors_file;
	struct store *store;

	if (settings->wrong) {
		log_error("cannot understand the environment variable FARPAGE_%s; use `farpage run`", settings->wrong);
		preload_give_up(NULL);
	}
	if (preload.own_malloc)
		check_own_malloc(&settings->options);
	/* pager_open_store() may empty the window if it fails, so an orphan's rights are tested before. */
	if (!may_open() || (preload.orphan && !may_page())) {
		fail();
		return;
	}
	preload_mark();
	if (child_open())
		preload_give_up("cannot follow forks: this kernel has no pidfd_open (Linux 5.3)");
	preload.counters = report_claim(settings->report, settings->report_pids);
	if (pager_connect(&settings->options, donors_file, settings->user, preload.window.length, &store)) {
		fail();
		return;
	}
	/* From here on, the starter must not wait for a thread of the program, because that thread may be waiting
	   for this lock. */
	pthread_mutex_lock(&preload.lock);
	if (pager_open_store(&settings->options, store, &preload.window, preload.counters, &preload.farpage))
		preload_give_up(NULL);
	preload.forks_followed = pager_follows_forks(preload.farpage);
	preload.start_due = false;
	report_pager(pager_descriptor(preload.farpage), &preload.window);
	preload_run();
	keep_noted();
	pthread_mutex_unlock(&preload.lock);
}

static void *starter(void *unused)
{
	(void)unused;
	latch_await(&start.wanted);
	pthread_mutex_lock(&start.under_way);
	start_pager();
	latch_set(&start.done); /* first, because a child that is forked once the lock is free must find it set */
	pthread_mutex_unlock(&start.under_way);
	return NULL;
}

/* Creates the starter, which is near from its first instruction on, because the caller is near meanwhile. */
static void make_starter(void)
{
	pthread_t thread;

	preload_near++;
	if (thread_start(&thread, "farpage-start", STARTER_STACK, starter, NULL))
		preload_give_up("there is no room for the thread that starts the pager");
	pthread_detach(thread);
	preload_near--;
}

static void want(void)
{
	if (!preload.own_malloc && !__atomic_exchange_n(&start.made, true, __ATOMIC_ACQ_REL))
		make_starter();
	uint64_t none = 0;
	__atomic_compare_exchange_n(&start.begun, &none, clock_now(), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (!latch_is_set(&start.wanted))
		latch_set(&start.wanted);
}

static void await(void)
{
	uint64_t now = clock_now();
	uint64_t end =
	    __atomic_load_n(&start.begun, __ATOMIC_ACQUIRE) + (preload.own_malloc ? PATIENCE_OWN_MALLOC : PATIENCE);

	if (end < now + STEP)
		end = now + STEP;
	for (; !latch_is_set(&start.done) && now < end; now = clock_now()) {
		uint64_t left = end - now;

		latch_wait(&start.done,
			   &(struct timespec){.tv_sec = (time_t)(left / NS_S), .tv_nsec = (long)(left % NS_S)});
	}
}

void preload_start(void)
{
	if (!start.ready)
		return; /* before the library's constructor; a later call starts the pager */
	struct entry entry = entry_begin();
	want();
	await();
	entry_end(entry, 0);
}

void start_settle(void)
{
	if (!latch_is_set(&start.wanted) || latch_is_set(&start.done))
		return;
	struct entry entry = entry_begin();
	await();
	entry_end(entry, 0);
}

void start_prepare(void)
{
	if (preload.own_malloc) {
		start.made = true;
		make_starter();
		if (thread_spares_prepare())
			preload_give_up("there is no room for the pager's threads");
	}
	start.ready = true;
}

void start_again(void)
{
	start.made = false;
	start.wanted = start.done = (struct latch){0};
	start.begun = 0;
	start_prepare();
}

void start_at_once(void)
{
	preload.start_due = true;
	want();
}

void start_fork_prepare(void)
{
	pthread_mutex_lock(&start.under_way);
}

void start_fork_done(bool in_child)
{
	pthread_mutex_unlock(&start.under_way);
	if (!in_child)
		return;
	thread_spares_forget();
	if (preload_mode() == PRELOAD_WAITING)
		start_again();
}
