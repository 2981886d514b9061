/*
 * process: from the first allocation to a running pager.
 *
 * Theory of operation. The first call of any interposed function reads the environment and reserves the window. That
 * can be before any constructor, in the loader. From then on the process is WAITING: the window is ordinary memory and
 * costs nothing. So shells and the small programs of a pipeline never pay for a pager. Allocations are counted, roughly
 * and rather too high. When the count passes the threshold, the next allocation that returns to the program has the
 * pager started (start.c) over the window and its contents.
 *
 * A RUNNING process stays so until it calls exec or ends. At exit nothing is torn down, because other threads may touch
 * far memory to the very last. The donors notice that the connection is gone.
 *
 * Forks. A page that the kernel wipes in a child tells the child from its parent, however the fork was made. A vfork
 * child shares the page, and is the parent as far as memory goes. A child of a WAITING process is a WAITING process.
 */
#include "common/log.h"
#include "pager/preload/near_heap.h"
#include "pager/preload/preload.h"
#include "pager/preload/report.h"
#include "pager/preload/settings.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_CANNOT_START 125

struct preload preload = {.lock = PTHREAD_MUTEX_INITIALIZER};
__thread unsigned preload_near;

static struct settings settings;
static const int *alive;              /* in a page of its own; 1, but 0 in a child */
static uintptr_t heap_low, heap_high; /* libmimalloc's code */

void preload_give_up(const char *why)
{
	if (why)
		log_error("%s", why);
	_exit(EXIT_CANNOT_START);
}

bool preload_has_name(const char *name)
{
	Dl_info everybodys, here;
	const ElfW(Sym) *symbol = NULL;
	if (!dladdr1(dlsym(RTLD_DEFAULT, name), &everybodys, (void **)&symbol, RTLD_DL_SYMENT) ||
	    !dladdr((void *)preload_begin, &here))
		return false;
	/*
	 * An executable at a fixed address that takes the function's address has an entry of its own for it. The entry
	 * jumps to the first library that has the name (System V ABI, AMD64, "Function Addresses"). That is this
	 * library, because `farpage run` puts it first.
	 */
	if (symbol && symbol->st_shndx == SHN_UNDEF)
		return true;
	return everybodys.dli_fbase == here.dli_fbase;
}

/* assert() of farpage's own code calls it. */
void __attribute__((noreturn))
__wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function);
void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
	log_error("%s:%u: %s: this should be so, and is not: %s", file, line, function, what);
	abort();
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
		preload_give_up("cannot follow forks: this kernel has no MADV_WIPEONFORK (Linux 4.14)");
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
		if (settings.verbose)
			log_set_level(LOG_LEVEL_INFO);
		/* A statically linked tcmalloc does this. Its mappings never come by here, so nothing would bound
		   them. */
		if (!preload_has_name("mmap") || !preload_has_name("munmap"))
			preload_give_up("this program brings its own mmap and cannot be given far memory");
		if (window_reserve(&preload.window, settings.options.window) || near_heap_reserve())
			preload_give_up("cannot reserve the address space of far memory; is `ulimit -v` set?");
		preload.window.mediated = true;
		dl_iterate_phdr(find_heap_code, NULL);
		/* The heap's commits tell how much of its segments is in use. */
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

/* Ends the process if an option needs libraries that would call the program's malloc. librdmacm and OpenSSL call malloc
   by name. */
static void check_own_malloc(const struct farpage_options *options)
{
	for (unsigned i = 0; i < options->donor_count; i++)
		if (strncmp(options->donors[i], "tcp:", 4) != 0)
			preload_give_up(
			    "this program brings its own malloc: it can be given far memory of tcp:// donors only");
	if (options->encrypt)
		preload_give_up("this program brings its own malloc: its far memory cannot be encrypted");
}

void preload_start_pager(void)
{
	struct store *store;
	if (settings.wrong) {
		log_error("cannot understand the environment variable FARPAGE_%s; use `farpage run`", settings.wrong);
		preload_give_up(NULL);
	}
	if (preload.own_malloc)
		check_own_malloc(&settings.options);
	make_wiped_page();
	if (child_open())
		preload_give_up("cannot follow forks: this kernel has no pidfd_open (Linux 5.3)");
	preload.counters = report_claim(settings.report);
	if (pager_connect(&settings.options, preload.window.length, &store))
		preload_give_up(NULL); /* logged already */
	/* From here on nothing of the program is waited for, because its threads may wait for the lock. */
	pthread_mutex_lock(&preload.lock);
	if (pager_open_store(&settings.options, store, &preload.window, preload.counters, &preload.farpage))
		preload_give_up(NULL);
	preload.forks_followed = pager_follows_forks(preload.farpage);
	preload.start_due = false;
	report_pager(pager_descriptor(preload.farpage), &preload.window);
	set_mode(PRELOAD_RUNNING);
	keep_noted();
	pthread_mutex_unlock(&preload.lock);
}

static struct entry fork_entry; /* under preload.lock */

static void fork_prepare(void)
{
	struct entry entry = entry_begin();
	start_fork_prepare();
	pthread_mutex_lock(&preload.lock);
	fork_entry = entry;
	child_prepare();
	far_fork_prepare();
	near_heap_fork_prepare();
}

static void fork_done_in_parent(void)
{
	struct entry entry = fork_entry;
	near_heap_fork_done();
	far_fork_done();
	child_after_in_parent();
	pthread_mutex_unlock(&preload.lock);
	start_fork_done(false);
	entry_end(entry, 0);
}

static void fork_done_in_child(void)
{
	struct entry entry = fork_entry;
	near_heap_fork_done();
	far_fork_done();
	pthread_mutex_unlock(&preload.lock);
	descriptors_after_in_child();
	start_fork_done(true);
	child_after_in_child();
	entry_end(entry, 0);
}

static void __attribute__((constructor)) process_begin(void)
{
	if (preload_mode() != PRELOAD_WAITING)
		return;
	/* heap_is_ours() also calls malloc. So a malloc of the program's has registered its fork handlers before
	   farpage does. In a child it is then whole again before farpage's handlers make a thread. */
	preload.own_malloc = !heap_is_ours();
	preload_near++;
	pthread_atfork(fork_prepare, fork_done_in_parent, fork_done_in_child);
	preload_near--;
	start_prepare();
}
