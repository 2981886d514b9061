/*
 * preload: the state that all files share, and the mode of the process: from the first allocation to a running pager.
 *
 * Theory of operation. The first call of any interposed function reads the environment and reserves the window. This
 * may happen in the loader, before any constructor. From then on the process is WAITING: the window is ordinary memory
 * and costs nothing. So shells and the small programs of a pipeline never pay for a pager. Allocations are counted
 * roughly; the count may be too high. When the count passes the threshold, the next allocation that returns to the
 * program starts the pager (start.c) over the window and its contents.
 *
 * A RUNNING process stays so until it calls exec or ends. At exit nothing is closed, because other threads may touch
 * far memory until the end. The donors notice that the connection is gone.
 *
 * Forks. A page that the kernel wipes in a child tells the child from its parent, however the fork was made. A vfork
 * child shares the page and all memory, so it counts as the parent. A child of a WAITING process is a WAITING process.
 *
 * Any thread. This file calls no other file of the folder that calls preload_mode().
 */
#include "pager/preload/preload.h"
#include "common/log.h"
#include "pager/preload/near_heap.h"
#include <dlfcn.h>
#include <link.h>
#include <mimalloc.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_CANNOT_START 125

struct preload preload = {.lock = PTHREAD_MUTEX_INITIALIZER};
__thread unsigned preload_near;

static const int *alive;              /* in a page of its own: 1 in the parent, 0 in a child */
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

void preload_mark(void)
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
	if (settings_read(&preload.settings)) {
		if (preload.settings.verbose)
			log_set_level(LOG_LEVEL_INFO);
		/* A statically linked tcmalloc does this. This library does not see its mappings, so their memory would
		   have no bound. */
		if (!preload_has_name("mmap") || !preload_has_name("munmap"))
			preload_give_up("this program brings its own mmap and cannot be given far memory");
		if (window_reserve(&preload.window, preload.settings.options.window) || mapping_prepare() ||
		    near_heap_reserve())
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

void preload_run(void)
{
	set_mode(PRELOAD_RUNNING);
}

void preload_count(int64_t bytes)
{
	if (__atomic_load_n(&preload.mode, __ATOMIC_RELAXED) != PRELOAD_WAITING)
		return;
	int64_t allocated = __atomic_add_fetch(&preload.allocated, bytes, __ATOMIC_RELAXED);
	if (allocated > (int64_t)preload.settings.start_bytes)
		__atomic_store_n(&preload.start_due, true, __ATOMIC_RELAXED);
}
