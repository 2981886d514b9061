/*
 * process: from the first allocation to a running pager.
 *
 * Theory of operation. The first call of any interposed function reads the environment and reserves the window; that
 * can be before any constructor, in the loader. From then on the process is WAITING: the window is ordinary memory and
 * costs nothing, so that shells and the small programs of a pipeline never pay for a pager. What is allocated is
 * counted, roughly and rather too high; when it passes the threshold, the next allocation that returns to the program
 * starts the pager over the window, contents and all. RUNNING processes stay so until they exec or end: at exit nothing
 * is torn down, because other threads may touch far memory to the very last; donors notice that the connection is gone.
 *
 * Forks. A page that the kernel wipes in a child tells it apart from its parent, however the fork was made (a vfork
 * child shares the page, and is the parent as far as memory goes). A child of a WAITING process is a WAITING process.
 */
#include "common/log.h"
#include "pager/preload/preload.h"
#include "pager/preload/report.h"
#include "pager/preload/settings.h"
#include <errno.h>
#include <link.h>
#include <mimalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_CANNOT_START 125

struct preload preload = {.lock = PTHREAD_MUTEX_INITIALIZER};
__thread unsigned preload_near;

static struct settings settings;
static const int *alive;              /* in a page of its own: 1, and 0 in a child */
static uintptr_t heap_low, heap_high; /* libmimalloc's code */

/* The program cannot be given far memory, and must not run without. */
static void __attribute__((noreturn)) give_up(const char *why)
{
	if (why)
		log_error("%s", why);
	_exit(EXIT_CANNOT_START);
}

static bool object_contains(const struct dl_phdr_info *info, uintptr_t address)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) < info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

static int find_heap_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!object_contains(info, (uintptr_t)mi_malloc))
		return 0;
	heap_low = UINTPTR_MAX;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		heap_low = low < heap_low ? low : heap_low;
		heap_high = low + segment->p_memsz > heap_high ? low + segment->p_memsz : heap_high;
	}
	return 1;
}

bool preload_is_heap_code(const void *address)
{
	return (uintptr_t)address - heap_low < heap_high - heap_low;
}

static void make_wiped_page(void)
{
	int *page = kernel_mmap(NULL, WINDOW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || kernel_madvise(page, WINDOW_PAGE, MADV_WIPEONFORK))
		give_up("cannot follow forks: this kernel has no MADV_WIPEONFORK (Linux 4.14)");
	*page = 1;
	alive = page;
}

static void set_mode(enum preload_mode mode)
{
	__atomic_store_n(&preload.mode, mode, __ATOMIC_RELEASE);
}

void preload_begin(void)
{
	preload_near++;
	if (preload.mode != PRELOAD_UNKNOWN) {
		preload_near--;
		return;
	}
	set_mode(PRELOAD_INERT);
	if (settings_read(&settings)) {
		int error = window_reserve(&preload.window, settings.options.window);
		if (error)
			give_up("cannot reserve the address space of far memory; is `ulimit -v` set?");
		dl_iterate_phdr(find_heap_code, NULL);
		/* Its commits tell how much of its segments is in use. */
		mi_option_set(mi_option_eager_commit, 0);
		mi_option_set(mi_option_large_os_pages, 0);
		set_mode(PRELOAD_WAITING);
		preload.far_heap = true;
	}
	preload_near--;
}

enum preload_mode preload_mode(void)
{
	enum preload_mode mode = __atomic_load_n(&preload.mode, __ATOMIC_ACQUIRE);
	if (mode == PRELOAD_UNKNOWN) {
		preload_begin();
		return preload.mode;
	}
	if (mode == PRELOAD_RUNNING && !*alive) {
		mode = PRELOAD_CHILD;
		set_mode(mode);
	}
	return mode;
}

void preload_count(int64_t bytes)
{
	if (__atomic_load_n(&preload.mode, __ATOMIC_RELAXED) != PRELOAD_WAITING)
		return;
	int64_t allocated = __atomic_add_fetch(&preload.allocated, bytes, __ATOMIC_RELAXED);
	if (allocated > (int64_t)settings.start_bytes)
		__atomic_store_n(&preload.start_due, true, __ATOMIC_RELAXED);
}

/* preload.lock is held. */
static void start_pager(void)
{
	if (settings.wrong) {
		log_error("cannot understand the environment variable FARPAGE_%s; use `farpage run`", settings.wrong);
		give_up(NULL);
	}
	if (preload.own_malloc)
		give_up("this program brings its own malloc and cannot be given far memory");
	make_wiped_page();
	if (child_open())
		give_up("cannot follow forks: this kernel has no pidfd_open (Linux 5.3)");
	struct pager_counters *counters = report_claim(settings.report);
	if (pager_open(&settings.options, &preload.window, counters, &preload.farpage))
		give_up(NULL); /* said why */
	preload.start_due = false;
	set_mode(PRELOAD_RUNNING);
}

void preload_start(void)
{
	int error = errno, cancel_state;
	sigset_t all, before;
	/* The threads of the pager take no signals of the program, and the program's handlers do not run near. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	preload_near++;
	/* Whoever comes second goes on, within what the window holds, until the pager is there. */
	if (!pthread_mutex_trylock(&preload.lock)) {
		if (preload.mode == PRELOAD_WAITING)
			start_pager();
		pthread_mutex_unlock(&preload.lock);
	}
	preload_near--;
	pthread_setcancelstate(cancel_state, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&preload.lock);
	child_prepare();
	far_fork_prepare();
}

static void fork_done_in_parent(void)
{
	far_fork_done();
	child_after_in_parent();
	pthread_mutex_unlock(&preload.lock);
}

static void fork_done_in_child(void)
{
	far_fork_done();
	pthread_mutex_unlock(&preload.lock);
	descriptors_after_in_child();
	child_after_in_child();
}

/* Whoever is called here by that name is who serves everybody: ours gives memory of the window. */
static bool has_own_malloc(void)
{
	void *block = malloc(1);
	bool ours = window_contains(&preload.window, block);
	free(block);
	return !ours;
}

static void __attribute__((constructor)) process_begin(void)
{
	if (preload_mode() != PRELOAD_WAITING)
		return;
	preload.own_malloc = has_own_malloc();
	preload_near++;
	pthread_atfork(fork_prepare, fork_done_in_parent, fork_done_in_child);
	preload_near--;
}
