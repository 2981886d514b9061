/*
 * mapping: mmap, munmap, mprotect, madvise and mlock, for the program and for its heap.
 *
 * Private anonymous mappings of at least 16 KiB, which is the size of Ruby's blocks of objects, are placed in the
 * window, if they are readable and writable. So are reservations of at least 128 KiB. A reservation has no access
 * (PROT_NONE); the program later opens parts of the reservation by mprotect or MAP_FIXED. The kernel makes all other
 * mappings, such as shared memory. If a range is only partly in the window, this file handles the part inside, and the
 * kernel the part outside.
 *
 * All memory of the heap (libmimalloc) is placed in the window. A call comes from the heap if its return address is
 * in the heap's code. When the heap commits memory by mprotect, the memory is only counted: pages of the window are
 * writable from the start, so the system call would be wasted.
 *
 * Any thread may call these functions.
 */
#undef _FILE_OFFSET_BITS /* with it, mmap would be another name for mmap64, and this file defines both */
#include "pager/bitmap.h"
#include "pager/preload/preload.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAP_FAR_MIN (16u << 10)
#define RESERVE_FAR_MIN (128u << 10)
#define HEAP_SEGMENT ((size_t)32 << 20) /* libmimalloc aligns its segments to their size */
#define HEAP_SEGMENT_MIN ((size_t)1 << 20)

#define ADVICE_COLLAPSE 25 /* MADV_COLLAPSE, Linux 6.1, which Debian 12's headers lack */

#define CALLER_IS_HEAP() preload_is_heap_code(__builtin_return_address(0))

/* Returns true for calls of farpage's own code, which are for the kernel even if their range is in the window. */
static bool is_for_kernel(bool for_heap)
{
	return preload_near && !for_heap;
}

static int fail(int error)
{
	errno = -error;
	return -1;
}

/* --- The heap's pages --------------------------------------------------------------------------------------------- */

/* One bit per page of the window, set if the heap has mapped the page. */
static uint64_t *heap_pages;

int mapping_prepare(void)
{
	size_t words = preload.window.length / WINDOW_PAGE / BITMAP_WORD + 1;
	void *table = kernel_mmap(NULL, words * sizeof heap_pages[0], PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (table == MAP_FAILED)
		return -ENOMEM;
	heap_pages = table;
	return 0;
}

bool mapping_is_heap(const void *address)
{
	return bitmap_has(heap_pages, window_page(&preload.window, address));
}

static void note_heap(const char *start, size_t length, bool mapped)
{
	uint64_t pages = window_round(length) / WINDOW_PAGE;

	bitmap_set(heap_pages, window_page(&preload.window, start), pages, mapped);
}

/* --- mmap ------------------------------------------------------------------------------------------------------- */

static bool is_private_memory(int flags)
{
	const int never = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_32BIT;

	return (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && !(flags & never);
}

static bool is_ordinary_memory(int protection, int flags)
{
	return is_private_memory(flags) && protection == (PROT_READ | PROT_WRITE);
}

/* --- Reservations ------------------------------------------------------------------------------------------------- */

/*
 * A reservation of more than half of the window (Haskell's is 1 TiB) gets the upper half of the window, and goes on
 * above the window's end. Programs use a reservation from its low end. Memory above the window stays local.
 *
 * If a program asks for a reservation at an address of its choice, the window places the reservation at another
 * address. Most programs accept that, or try a few dozen more addresses. ZGC, which later maps shared memory at the
 * address, would try thousands. So after CHOICES_MAX such reservations, the kernel makes all further reservations at
 * the program's addresses.
 *
 * A program often returns a reservation at once. If is_unopened() knows that no page was used, the pages need not be
 * emptied.
 */

#define CHOICES_MAX 160u /* Go tries 128 */

/* Number of reservations that did not get the address of the program's choice. Set to 0 when the program opens a
   reservation. Atomic. */
static unsigned denied;

/* The last reservation of the calling thread. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
	char *start;
	size_t length;
	uint64_t uses; /* far_uses() when the reservation was made */
} reserved;

static void note_opening(void)
{
	far_note_use();
	__atomic_store_n(&denied, 0, __ATOMIC_RELAXED);
}

static bool is_reservation(const void *choice, int protection, int flags)
{
	return is_private_memory(flags) && protection == PROT_NONE &&
	       !(choice && __atomic_load_n(&denied, __ATOMIC_RELAXED) >= CHOICES_MAX);
}

/* Returns true if the range is this thread's last reservation, and no memory was allocated or opened since. Returns
   false in a forked child, because the range may be registered with the parent's pager. */
static bool is_unopened(const char *start, size_t length)
{
	return reserved.start == start && reserved.length == length && preload_mode() != PRELOAD_CHILD &&
	       reserved.uses == far_uses();
}

/* Makes the part of a reservation that goes on above the window. */
static bool reserve_above(size_t length)
{
	char *end = preload.window.base + preload.window.length;

	return kernel_mmap(end, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			   -1, 0) == end;
}

/* Makes a reservation in the window. Returns NULL if that is not possible. Counts the part in the window as used now,
   because later mprotect() calls of the program are not counted. */
static void *map_reservation(const void *choice, size_t wanted)
{
	const size_t half = preload.window.length / 2 / WINDOW_PAGE * WINDOW_PAGE;
	const bool large = wanted > half;
	size_t length = large ? half : wanted;
	void *address = preload.window.base + preload.window.length - half;

	if (large ? far_allocate_at(address, length) : far_allocate(length, WINDOW_PAGE, &address))
		return NULL;
	if (far_protect(address, length, PROT_NONE) || (large && !reserve_above(wanted - half))) {
		far_free(address, length);
		return NULL;
	}
	if (choice)
		__atomic_fetch_add(&denied, 1, __ATOMIC_RELAXED);
	reserved.start = address;
	reserved.length = length;
	reserved.uses = far_uses();
	preload_count((int64_t)length);
	preload_start_if_due();
	return address;
}

/* Counts memory that the heap uses. Usually malloc() starts the pager at its end (heap.c). If the program has
   libmimalloc as its own malloc, malloc() is not this library's, so this function starts the pager. */
static void count_for_heap(int64_t bytes)
{
	preload_count(bytes);
	if (preload.own_malloc)
		preload_start_if_due();
}

/* Maps memory for the heap. Memory without access is counted later, when the heap commits it by mprotect(). */
static void *map_for_heap(size_t length, int protection)
{
	void *address;
	size_t alignment = length >= HEAP_SEGMENT_MIN ? HEAP_SEGMENT : WINDOW_PAGE;

	if (far_allocate(length, alignment, &address) && far_allocate(length, WINDOW_PAGE, &address)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	note_heap(address, length, true);
	if (protection & PROT_WRITE)
		count_for_heap((int64_t)length);
	return address;
}

static void *map_far(size_t length)
{
	void *address;
	int error = length > PTRDIFF_MAX ? -ENOMEM : far_allocate(length, WINDOW_PAGE, &address);

	if (error) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	preload_count((int64_t)length);
	preload_start_if_due();
	return address;
}

/* Maps by MAP_FIXED_NOREPLACE in the window. Only private anonymous memory is possible in the window. */
static void *map_unoccupied(void *address, size_t length, int protection, int flags)
{
	int error = is_ordinary_memory(protection, flags) ? far_allocate_at(address, length) : -EEXIST;

	if (error) {
		errno = error == -ENOMEM ? ENOMEM : EEXIST;
		return MAP_FAILED;
	}
	preload_count((int64_t)length);
	preload_start_if_due();
	return address;
}

/* Prepares [@start, +@length) of the window, a part of the program's range, for MAP_FIXED. Returns 0 or -errno. */
static int map_over(char *start, size_t length, int protection, int flags)
{
	const int memory = MAP_PRIVATE | MAP_ANONYMOUS;

	note_opening();
	if ((flags & (memory | MAP_SHARED | MAP_HUGETLB)) != memory || far_given_up(start, length))
		return far_give_up(start, length);
	int error = far_discard(start, length);
	if (!error)
		error = window_take(&preload.window, start, length);
	if (!error && far_protect(start, length, protection))
		error = -errno;
	return error;
}

static void *map_fixed(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	char *start, *end = (char *)address + length;
	size_t covered;
	const int memory = MAP_PRIVATE | MAP_ANONYMOUS;

	far_clip(address, length, &start, &covered);
	/* Checked first, because an invalid call must not change the old mapping. */
	if ((uintptr_t)address % WINDOW_PAGE || !(flags & (MAP_PRIVATE | MAP_SHARED))) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	int error = map_over(start, covered, protection, flags);
	if (error) {
		errno = -error;
		return MAP_FAILED;
	}
	if ((flags & (memory | MAP_SHARED | MAP_HUGETLB)) != memory || far_given_up(start, covered))
		return kernel_mmap(address, length, protection, flags, fd, offset);
	if ((char *)address < start &&
	    kernel_mmap(address, (size_t)(start - (char *)address), protection, flags, fd, offset) == MAP_FAILED)
		return MAP_FAILED;
	if (start + covered < end && kernel_mmap(start + covered, (size_t)(end - (start + covered)), protection, flags,
						 fd, offset) == MAP_FAILED)
		return MAP_FAILED;
	return address;
}

static void *map_by_kind(void *address, size_t length, int protection, int flags, int fd, off_t offset, bool for_heap)
{
	char *start;
	size_t covered;

	if (for_heap && flags & MAP_ANONYMOUS && !(flags & MAP_FIXED))
		return map_for_heap(length, protection);
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
		if (!far_clip(address, length, &start, &covered))
			return kernel_mmap(address, length, protection, flags, fd, offset);
		if (flags & MAP_FIXED_NOREPLACE)
			return map_unoccupied(address, length, protection, flags);
		return map_fixed(address, length, protection, flags, fd, offset);
	}
	if (length >= MAP_FAR_MIN && is_ordinary_memory(protection, flags))
		return map_far(length);
	void *mapped = NULL;
	if (length >= RESERVE_FAR_MIN && is_reservation(address, protection, flags))
		mapped = map_reservation(address, length);
	return mapped ? mapped : kernel_mmap(address, length, protection, flags, fd, offset);
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset, bool for_heap)
{
	if (preload_mode() == PRELOAD_INERT || !length || is_for_kernel(for_heap))
		return kernel_mmap(address, length, protection, flags, fd, offset);
	struct entry entry = entry_begin();
	void *mapped = map_by_kind(address, length, protection, flags, fd, offset, for_heap);
	entry_end(entry, mapped == MAP_FAILED);
	return mapped;
}

PRELOAD_EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return map(address, length, protection, flags, fd, offset, CALLER_IS_HEAP());
}

PRELOAD_EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	return map(address, length, protection, flags, fd, offset, CALLER_IS_HEAP());
}

/* --- Whole ranges ----------------------------------------------------------------------------------------------- */

/* Applies @one to the parts of the range outside the window. */
static int outside(char *address, size_t length, int (*one)(void *, size_t, int), int argument)
{
	char *start, *end = address + length;
	size_t covered;

	if (!far_clip(address, length, &start, &covered))
		return one(address, length, argument);
	if (address < start && one(address, (size_t)(start - address), argument))
		return -1;
	if (start + covered < end && one(start + covered, (size_t)(end - (start + covered)), argument))
		return -1;
	return 0;
}

static int unmap_outside(void *address, size_t length, int unused)
{
	(void)unused;
	return kernel_munmap(address, length);
}

PRELOAD_EXPORT int munmap(void *address, size_t length)
{
	char *start;
	size_t covered;
	bool for_heap = CALLER_IS_HEAP();

	if (is_for_kernel(for_heap) || !far_clip(address, length, &start, &covered))
		return kernel_munmap(address, length);
	if ((uintptr_t)address % WINDOW_PAGE)
		return fail(-EINVAL);
	struct entry entry = entry_begin();
	if (for_heap)
		note_heap(start, covered, false);
	else
		preload_count(-(int64_t)covered);
	if (is_unopened(start, covered))
		window_free(&preload.window, start, covered);
	else
		far_free(start, covered);
	return entry_end(entry, outside(address, length, unmap_outside, 0));
}

PRELOAD_EXPORT int mprotect(void *address, size_t length, int protection)
{
	char *start;
	size_t covered;
	bool for_heap = CALLER_IS_HEAP();

	if (is_for_kernel(for_heap) || !far_clip(address, length, &start, &covered))
		return kernel_mprotect(address, length, protection);
	if (!for_heap) {
		note_opening();
		return far_protect(address, length, protection);
	}
	if (protection & PROT_WRITE)
		count_for_heap((int64_t)covered);
	return 0;
}

PRELOAD_EXPORT int pkey_mprotect(void *address, size_t length, int protection, int key)
{
	char *start;
	size_t covered;

	if (preload_near || !far_clip(address, length, &start, &covered))
		return kernel_pkey_mprotect(address, length, protection, key);
	note_opening();
	return far_protect_by_key(address, length, protection, key);
}

/* Applies advice to pages of the window. Empties, fetches or evicts pages as advised. Ignores all other known advice:
   the kernel would change far memory in ways that only the pager may, for example hide it from children. Returns 0 or
   -errno. */
static int advise_far(char *start, size_t length, int advice)
{
	if (!window_allocated(&preload.window, start, length))
		return -ENOMEM;
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_FREE:
		return far_discard(start, length);
	case MADV_WILLNEED:
	case MADV_PAGEOUT: {
		int error = 0;

		if (preload_mode() != PRELOAD_RUNNING)
			return 0;
		preload_near++;
		error = farpage_advise(preload.farpage, start, length,
				       advice == MADV_WILLNEED ? FARPAGE_WILLNEED : FARPAGE_PAGEOUT);
		preload_near--;
		return error;
	}
	case MADV_NORMAL:
	case MADV_RANDOM:
	case MADV_SEQUENTIAL:
	case MADV_COLD:
	case MADV_DONTFORK:
	case MADV_DOFORK:
	case MADV_MERGEABLE:
	case MADV_UNMERGEABLE:
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
	case ADVICE_COLLAPSE:
	case MADV_DONTDUMP:
	case MADV_DODUMP:
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		return 0;
	default:
		/* unknown advice, or impossible here (MADV_WIPEONFORK) */
		return -EINVAL;
	}
}

/* Applies advice to a part of the window. Where the program has mapped files or shared memory over the window, the
   kernel applies the advice. Returns 0 or -errno. */
static int advise_window(char *start, size_t length, int advice)
{
	char *end = start + length;

	while (start < end) {
		char *low, *high;
		int error = 0;

		far_next_given_up(start, end, &low, &high);
		if (low > start)
			error = advise_far(start, (size_t)(low - start), advice);
		if (!error && high > low && kernel_madvise(low, (size_t)(high - low), advice))
			error = -errno;
		if (error)
			return error;
		start = high;
	}
	return 0;
}

static int advise(void *address, size_t length, int advice, bool for_heap)
{
	char *start;
	size_t covered;

	if (is_for_kernel(for_heap) || !far_clip(address, length, &start, &covered))
		return kernel_madvise(address, length, advice);
	if ((uintptr_t)address % WINDOW_PAGE)
		return fail(-EINVAL);
	if (for_heap && advice == MADV_DONTNEED)
		preload_count(-(int64_t)covered);
	struct entry entry = entry_begin();
	int error = advise_window(start, covered, advice);
	return entry_end(entry, error ? fail(error) : outside(address, length, kernel_madvise, advice));
}

PRELOAD_EXPORT int madvise(void *address, size_t length, int advice)
{
	return advise(address, length, advice, CALLER_IS_HEAP());
}

PRELOAD_EXPORT int posix_madvise(void *address, size_t length, int advice)
{
	int before = errno;

	/* POSIX_MADV_DONTNEED must not lose contents, so it does nothing, as in glibc. */
	if (advice == POSIX_MADV_DONTNEED)
		return 0;
	int error = advise(address, length, advice, false) ? errno : 0;
	errno = before;
	return error;
}

/* --- Locking ------------------------------------------------------------------------------------------------------ */

/* Locking far memory would fetch all of it, so a lock of far memory succeeds and does nothing. */

static int lock_outside(void *address, size_t length, int flags)
{
	return flags ? (int)syscall(SYS_mlock2, address, length, flags) : (int)syscall(SYS_mlock, address, length);
}

static int unlock_outside(void *address, size_t length, int unused)
{
	(void)unused;
	return (int)syscall(SYS_munlock, address, length);
}

PRELOAD_EXPORT int mlock(const void *address, size_t length)
{
	if (preload_near)
		return lock_outside((char *)address, length, 0);
	return outside((char *)address, length, lock_outside, 0);
}

PRELOAD_EXPORT int mlock2(const void *address, size_t length, unsigned flags)
{
	if (preload_near)
		return lock_outside((char *)address, length, (int)flags);
	return outside((char *)address, length, lock_outside, (int)flags);
}

PRELOAD_EXPORT int munlock(const void *address, size_t length)
{
	if (preload_near)
		return unlock_outside((char *)address, length, 0);
	return outside((char *)address, length, unlock_outside, 0);
}

PRELOAD_EXPORT int mlockall(int flags)
{
	if (preload_mode() != PRELOAD_INERT && !preload_near)
		return 0;
	return (int)syscall(SYS_mlockall, flags);
}
