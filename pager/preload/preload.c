/*
 * preload: the state that all files share, and the mode of the process.
 *
 * Theory of operation. The first call of any function of the library reads the environment and reserves the window
 * (preload_begin()), perhaps in the loader before any constructor. The process is now WAITING: the window is
 * ordinary memory. A shell or a small program of a pipeline stays WAITING, and never pays for a pager.
 *
 * preload_count() estimates the used memory; the estimate may be too high. When the estimate exceeds the threshold, the
 * next allocation starts the pager before it returns to the program (start.c). The process is then RUNNING until it
 * ends or calls exec. At exit nothing is closed, because other threads may touch far memory until the end. The donors
 * notice that the connection has ended.
 *
 * Forks. One page is marked so that the kernel zeroes it in a forked child, by whatever call the fork was made. So a
 * child of a RUNNING process knows that it is a CHILD. A vfork child shares all memory with its parent, and counts
 * as the parent. A child of a WAITING process is WAITING.
 *
 * Any thread may call these functions. This file calls no file of the folder that calls preload_mode().
 */
#include "pager/preload/preload.h"

#include "common/log.h"
#include "pager/preload/near_heap.h"

#include <dlfcn.h>
#include <link.h>
#include <mimalloc.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_CANNOT_START 125

struct preload preload = {.lock = PTHREAD_MUTEX_INITIALIZER};
__thread unsigned preload_near;

static const int *alive; /* points to 1, and in a forked child to 0; in a page of its own */

/* The bounds of a library's code. */
struct code {
	uintptr_t low, high;
};
static struct code heap_code, loader_code;

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
	/* In an executable at a fixed address, the function's address may be that of a PLT entry. The entry jumps to
	   the first library that has the name (System V ABI, AMD64, "Function Addresses"). This library is the first,
	   because `farpage run` puts it first. */
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

static void find_code(const struct dl_phdr_info *info, uintptr_t address, struct code *code)
{
	if (!object_contains(info, address))
		return;
	*code = (struct code){.low = UINTPTR_MAX};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		code->low = low < code->low ? low : code->low;
		code->high = low + segment->p_memsz > code->high ? low + segment->p_memsz : code->high;
	}
}

static int find_codes(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	find_code(info, (uintptr_t)mi_malloc, &heap_code);
	find_code(info, getauxval(AT_BASE), &loader_code);
	return 0;
}

bool preload_is_heap_code(const void *address)
{
	return (uintptr_t)address - heap_code.low < heap_code.high - heap_code.low;
}

bool preload_is_loader_code(const void *address)
{
	return (uintptr_t)address - loader_code.low < loader_code.high - loader_code.low;
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
		/* A statically linked tcmalloc has its own mmap. Its memory would bypass this library and have no
		   bound. */
		if (!preload_has_name("mmap") || !preload_has_name("munmap"))
			preload_give_up("this program brings its own mmap and cannot be given far memory");
		limits_begin(preload.settings.options.window);
		if (window_reserve(&preload.window, preload.settings.options.window, MAPPING_ROOM) ||
		    mapping_prepare() || near_heap_reserve())
			preload_give_up("cannot reserve the addresses of far memory: the hard limit of address space "
					"(ulimit -Hv) is too low, or this is valgrind, which has too few addresses");
		preload.window.mediated = true;
		dl_iterate_phdr(find_codes, NULL);
		/* The heap shall commit memory in small steps, because each commit is counted. */
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

void preload_wait_again(void)
{
	preload.farpage = NULL;
	preload.counters = NULL;
	set_mode(PRELOAD_WAITING);
}

void preload_count(int64_t bytes)
{
	if (__atomic_load_n(&preload.mode, __ATOMIC_RELAXED) != PRELOAD_WAITING)
		return;
	int64_t allocated = __atomic_add_fetch(&preload.allocated, bytes, __ATOMIC_RELAXED);
	if (allocated > (int64_t)preload.settings.start_bytes)
		__atomic_store_n(&preload.start_due, true, __ATOMIC_RELAXED);
}
