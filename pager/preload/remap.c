/*
 * remap: mremap of pages of the window.
 *
 * A mapping shrinks and grows in place if possible. Otherwise the mapping moves. While no pager runs, the kernel moves
 * the page tables. With a pager the kernel would not move far pages. So this file copies the contents in steps of 1
 * MiB, and empties the source after each step. Therefore the move never needs much more local memory than the mapping
 * itself. If the program may not read the source, this file makes the source readable for the copy. The target gets the
 * source's protection. A mapping that the program has put over the window (far_give_up()) is left to the kernel.
 *
 * Any thread may call these functions.
 */
#include "pager/preload/preload.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#define COPY_STEP ((size_t)1 << 20)

static void *fail(int error)
{
	errno = -error;
	return MAP_FAILED;
}

/* While no pager runs, moves the page tables and returns true. preload.lock prevents a pager from starting
   meanwhile. The source stays mapped and is empty. */
static bool move_before_pager(char *target, char *source, size_t length)
{
	bool moved = false;

	pthread_mutex_lock(&preload.lock);
	if (preload_mode() == PRELOAD_WAITING)
		moved = kernel_mremap(source, length, length, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
				      target) == target;
	pthread_mutex_unlock(&preload.lock);
	return moved;
}

static void copy_page(char *target, const char *source)
{
	static const char zeroes[WINDOW_PAGE];

	/* A page of zeroes is not written, so it stays untouched in the target and uses no memory. */
	if (memcmp(source, zeroes, WINDOW_PAGE) != 0)
		memcpy(target, source, WINDOW_PAGE);
}

static void copy_pages(char *target, char *source, size_t length)
{
	for (size_t done = 0, step; done < length; done += step) {
		step = length - done < COPY_STEP ? length - done : COPY_STEP;
		for (size_t at = done; at < done + step; at += WINDOW_PAGE)
			copy_page(target + at, source + at);
		far_discard(source + done, step);
	}
}

/* Moves the contents of @source, which is in the window, to @target, which is empty. */
static void move(char *target, char *source, size_t length)
{
	if (window_contains(&preload.window, target) && preload_mode() == PRELOAD_WAITING &&
	    move_before_pager(target, source, length))
		return;
	for (size_t step; length; target += step, source += step, length -= step) {
		int protection = far_protection(source, length, &step);

		if (!(protection & PROT_READ))
			far_protect(source, step, PROT_READ);
		copy_pages(target, source, step);
		if (!(protection & PROT_READ))
			far_protect(source, step, protection);
		if (protection != (PROT_READ | PROT_WRITE))
			far_protect(target, step, protection);
	}
}

/* Protects the pages at the end of a mapping that has grown. @protection is that of the last page before the growth. */
static void protect_grown(char *grown, size_t length, int protection)
{
	if (length && protection != (PROT_READ | PROT_WRITE))
		far_protect(grown, length, protection);
}

/* Replaces the mapping at the target of MREMAP_FIXED by empty writable memory. Returns 0 or -errno. */
static int clear_target(char *target, size_t length)
{
	char *start;
	size_t covered;

	if (!far_clip(target, length, &start, &covered)) {
		void *got =
		    kernel_mmap(target, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		return got == MAP_FAILED ? -errno : 0;
	}
	if (start != target || covered != length)
		return -EINVAL; /* partly in the window; the library never returns such a range */
	if (far_given_up(start, length))
		return -EINVAL;
	far_note_use();
	int error = far_discard(start, length);
	if (!error)
		error = window_take(&preload.window, start, length);
	if (!error && far_protect(start, length, PROT_READ | PROT_WRITE))
		error = -errno;
	return error;
}

static int choose_target(size_t length, int flags, void *wanted, char *old, size_t old_length, char **ret_target)
{
	void *target = wanted;
	int error;

	if (flags & MREMAP_FIXED) {
		if ((uintptr_t)wanted % WINDOW_PAGE ||
		    ((char *)wanted < old + old_length && old < (char *)wanted + length))
			return -EINVAL;
		error = clear_target(target, length);
	} else {
		error = far_allocate(length, WINDOW_PAGE, &target);
	}
	if (!error)
		*ret_target = target;
	return error;
}

static void *remap_far(char *old, size_t old_length, size_t new_length, int flags, void *wanted)
{
	const int known = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;

	if ((uintptr_t)old % WINDOW_PAGE || !new_length || !old_length || flags & ~known || new_length > PTRDIFF_MAX ||
	    old_length > PTRDIFF_MAX || (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) && !(flags & MREMAP_MAYMOVE)) ||
	    (flags & MREMAP_DONTUNMAP && old_length != new_length))
		return fail(-EINVAL);
	old_length = window_round(old_length);
	new_length = window_round(new_length);
	if (!window_allocated(&preload.window, old, old_length) || far_given_up(old, old_length))
		return fail(-EFAULT);
	size_t grown = new_length > old_length ? new_length - old_length : 0, unused;
	int protection = grown ? far_protection(old + old_length - WINDOW_PAGE, WINDOW_PAGE, &unused) : 0;
	if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
		if (new_length < old_length)
			far_free(old + new_length, old_length - new_length);
		if (!grown)
			return old;
		if (!far_allocate_at(old + old_length, grown)) {
			protect_grown(old + old_length, grown, protection);
			return old;
		}
		if (!(flags & MREMAP_MAYMOVE))
			return fail(-ENOMEM);
	}
	char *target;
	int error = choose_target(new_length, flags, wanted, old, old_length, &target);
	if (error)
		return fail(error);
	move(target, old, old_length < new_length ? old_length : new_length);
	protect_grown(target + old_length, grown, protection);
	if (!(flags & MREMAP_DONTUNMAP))
		far_free(old, old_length);
	return target;
}

/* Returns true if the range is in the window, but is one mapping of the kernel, which the program has put there. */
static bool is_given_up(char *start, size_t length)
{
	char *low, *high;

	if (!length)
		return false;
	far_next_given_up(start, start + length, &low, &high);
	return low == start && high == start + length;
}

/* Fills the hole that a mapping of the kernel has left in the window when it moved or shrank, so that the kernel places
   nothing else there. */
static void fill_hole(char *old, size_t old_length, const void *now, size_t new_length, int flags)
{
	if (now == MAP_FAILED || flags & MREMAP_DONTUNMAP)
		return;
	if (now != old)
		far_free(old, old_length);
	else if (new_length < old_length)
		far_free(old + new_length, old_length - new_length);
}

static void *remap(void *old, size_t old_length, size_t new_length, int flags, void *wanted)
{
	const size_t old_size = window_round(old_length);
	const size_t new_size = window_round(new_length);
	const bool given_up = is_given_up(old, old_size);
	char *start;
	size_t covered;

	if (!given_up && far_clip(old, old_length ? old_length : 1, &start, &covered)) {
		void *moved = remap_far(old, old_length, new_length, flags, wanted);

		if (moved != MAP_FAILED) {
			preload_count((int64_t)new_length - (int64_t)old_length);
			preload_start_if_due();
		}
		return moved;
	}
	if (flags & MREMAP_FIXED && far_clip(wanted, new_length, &start, &covered)) {
		int error = far_give_up(start, covered);

		if (error)
			return fail(error);
	}
	void *now = kernel_mremap(old, old_length, new_length, flags, wanted);

	if (given_up)
		fill_hole(old, old_size, now, new_size, flags);
	return now;
}

PRELOAD_EXPORT void *mremap(void *old, size_t old_length, size_t new_length, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	if (preload_near)
		return kernel_mremap(old, old_length, new_length, flags, wanted);
	struct entry entry = entry_begin();
	void *mapped = remap(old, old_length, new_length, flags, wanted);
	entry_end(entry, mapped == MAP_FAILED);
	return mapped;
}
