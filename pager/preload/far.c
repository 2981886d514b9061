/*
 * far: allocates, empties and frees pages of the window: without a pager, with a pager, and in a forked child.
 *
 * Without a pager, madvise(MADV_DONTNEED) empties pages. preload.lock is held, so that no pager starts meanwhile.
 * With a pager, farpage_advise() empties pages.
 *
 * A forked child has no pager of its own at first. If it only emptied pages by madvise(2), the parent's pager would
 * place the pages of the child's snapshot again. So it first has the pager forget the pages (served.c). The child's
 * free pages may be registered with the parent's pager, too. So an allocation maps new memory, and registers it once
 * the pager has forgotten the pages. far_leave_child() ends all this (child.c).
 *
 * If the pager cannot serve new memory of the child, new memory stays local. To empty pages, the child then maps new
 * memory over them, with the same protections.
 *
 * Any thread may call these functions.
 */
#include "pager/preload/preload.h"
#include "pager/vma.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define GIVEN_UP_MAX 256

/* Ranges where the program has mapped files or shared memory over the window. Ranges are never removed. */
static struct {
	pthread_mutex_t lock;
	unsigned count; /* atomic, because it is also read without the lock */
	struct {
		char *start, *end;
	} ranges[GIVEN_UP_MAX];
} given_up = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool far_clip(const void *address, size_t length, char **ret_start, size_t *ret_length)
{
	uintptr_t start = (uintptr_t)address, end = start + length;
	uintptr_t low = (uintptr_t)preload.window.base, high = low + preload.window.length;

	if (!preload.window.base || end < start)
		return false;
	if (start < low)
		start = low;
	if (end > high)
		end = high;
	if (start >= end)
		return false;
	*ret_start = (char *)start;
	*ret_length = window_round(end - start);
	return true;
}

/* Maps new memory. The caller holds the lock of remove.c. */
static int lay(char *start, size_t length, int protection)
{
	void *got =
	    kernel_mmap(start, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

	if (got == MAP_FAILED)
		return -errno;
	kernel_madvise(start, length, MADV_NOHUGEPAGE);
	return 0;
}

static int lay_fresh(char *start, size_t length, int protection)
{
	remove_lock();
	int error = lay(start, length, protection);
	remove_unlock();
	return error;
}

/* Maps new memory if the process is a CHILD. Otherwise does nothing and returns false. */
static bool lay_in_child(char *start, size_t length, int protection, int *ret_error)
{
	bool child = false;

	if (preload_mode() != PRELOAD_CHILD)
		return false;
	remove_lock();
	if (preload_mode() == PRELOAD_CHILD) {
		*ret_error = lay(start, length, protection);
		child = true;
	}
	remove_unlock();
	return child;
}

/* Waits while the evictor relies on the protections, and returns true with the lock held. A CHILD does not wait. If
   this returns false, the process is a CHILD, and the lock is not held. */
static bool lock_protections(void)
{
	pthread_mutex_t *lock = &preload.window.protect_lock;

	if (pthread_mutex_trylock(lock) == 0)
		return true;
	return preload_mode() != PRELOAD_CHILD && pthread_mutex_lock(lock) == 0;
}

static int unlock_protections(bool locked, int result)
{
	if (locked)
		pthread_mutex_unlock(&preload.window.protect_lock);
	return result;
}

int far_protect(void *address, size_t length, int protection)
{
	bool locked = lock_protections();

	return unlock_protections(locked, kernel_mprotect(address, length, protection));
}

int far_protect_by_key(void *address, size_t length, int protection, int key)
{
	bool locked = lock_protections();

	return unlock_protections(locked, kernel_pkey_mprotect(address, length, protection, key));
}

void far_leave_child(void)
{
	remove_lock();
	pthread_mutex_lock(&preload.window.protect_lock);
	preload_wait_again();
	pthread_mutex_unlock(&preload.window.protect_lock);
	remove_unlock();
}

int far_protection(const char *start, size_t length, size_t *ret_length)
{
	struct vma vma;
	int maps = vma_open(), protection = PROT_READ | PROT_WRITE;

	*ret_length = length;
	if (maps >= 0 && vma_query(maps, start, &vma) == 0) {
		protection = vma.protection;
		if (vma.end - (uintptr_t)start < length)
			*ret_length = vma.end - (uintptr_t)start;
	}
	if (maps >= 0)
		close(maps);
	return protection;
}

/* In a CHILD, maps new memory over the range, with the protections of the memory that it replaces. Otherwise returns
   false; a part of the range may then be empty already. */
static bool lay_alike(char *start, size_t length, int *ret_error)
{
	bool child = preload_mode() == PRELOAD_CHILD;

	for (size_t step; length && child && !*ret_error; start += step, length -= step) {
		int protection = far_protection(start, length, &step);

		child = lay_in_child(start, step, protection, ret_error);
	}
	return child;
}

/* In a CHILD, has the parent's pager forget the range. Returns true if that pager serves new memory there. */
static bool forget_in_child(const char *start, size_t length)
{
	if (preload_mode() != PRELOAD_CHILD)
		return false;
	remove_lock();
	bool possible = remove_is_possible();
	remove_unlock();
	return possible && served_forget(start, length, true);
}

/* In a CHILD, empties the range. Otherwise returns false; a part of the range may then be empty already. */
static bool discard_in_child(char *start, size_t length, int *ret_error)
{
	bool done = false;

	if (forget_in_child(start, length)) {
		remove_lock();
		done = preload_mode() == PRELOAD_CHILD && kernel_madvise(start, length, MADV_DONTNEED) == 0;
		remove_unlock();
	}
	return done || lay_alike(start, length, ret_error);
}

/* Prepares newly allocated pages in a CHILD. Returns 0 or -errno. */
static int lay_allocated(char *start, size_t length)
{
	int error = 0;

	if (!lay_in_child(start, length, PROT_READ | PROT_WRITE, &error) || error)
		return error;
	if (forget_in_child(start, length)) {
		remove_lock();
		if (preload_mode() == PRELOAD_CHILD)
			served_add(start, length);
		remove_unlock();
	}
	return 0;
}

static uint64_t uses; /* atomic */

void far_note_use(void)
{
	__atomic_fetch_add(&uses, 1, __ATOMIC_RELAXED);
}

uint64_t far_uses(void)
{
	return __atomic_load_n(&uses, __ATOMIC_RELAXED);
}

static bool program_allows(size_t length)
{
	return limits_allow(preload.window.allocated * WINDOW_PAGE + length);
}

int far_allocate(size_t length, size_t alignment, void **ret_address)
{
	void *address;

	far_note_use();
	if (!program_allows(length))
		return -ENOMEM;
	int error = window_allocate(&preload.window, length, alignment, &address);
	if (!error)
		error = lay_allocated(address, length);
	if (!error)
		*ret_address = address;
	return error;
}

int far_allocate_at(void *address, size_t length)
{
	far_note_use();
	if (!program_allows(length))
		return -ENOMEM;
	int error = window_allocate_at(&preload.window, address, length);
	return error ? error : lay_allocated(address, length);
}

/* Empties the pages by madvise(2). If a pager runs by now, does nothing and returns false. */
static bool discard_before_pager(char *start, size_t length, int *ret_error)
{
	bool ours = false;

	pthread_mutex_lock(&preload.lock);
	if (preload_mode() == PRELOAD_WAITING) {
		*ret_error = kernel_madvise(start, length, MADV_DONTNEED) ? -errno : 0;
		ours = true;
	}
	pthread_mutex_unlock(&preload.lock);
	return ours;
}

int far_discard(char *start, size_t length)
{
	int error = 0;

	if (discard_in_child(start, length, &error))
		return error;
	if (preload_mode() == PRELOAD_WAITING && discard_before_pager(start, length, &error))
		return error;
	preload_near++;
	error = farpage_advise(preload.farpage, start, length, FARPAGE_DISCARD);
	preload_near--;
	return error;
}

void far_next_given_up(const char *start, const char *end, char **ret_start, char **ret_end)
{
	*ret_start = *ret_end = (char *)end;
	if (!__atomic_load_n(&given_up.count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&given_up.lock);
	for (unsigned i = 0; i < given_up.count; i++) {
		char *low = given_up.ranges[i].start, *high = given_up.ranges[i].end;

		if (low >= *ret_start || high <= start)
			continue;
		*ret_start = low < start ? (char *)start : low;
		*ret_end = high > end ? (char *)end : high;
	}
	pthread_mutex_unlock(&given_up.lock);
}

bool far_given_up(const char *start, size_t length)
{
	char *low, *high;

	far_next_given_up(start, start + length, &low, &high);
	return low < high;
}

int far_give_up(char *start, size_t length)
{
	int error = window_take(&preload.window, start, length);

	if (error)
		return error;
	pthread_mutex_lock(&given_up.lock);
	unsigned i = 0;
	while (i < given_up.count && (given_up.ranges[i].start > start || given_up.ranges[i].end < start + length))
		i++;
	if (i == GIVEN_UP_MAX) {
		error = -ENOMEM;
	} else if (i == given_up.count) {
		given_up.ranges[i].start = start;
		given_up.ranges[i].end = start + length;
		__atomic_store_n(&given_up.count, i + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&given_up.lock);
	return error ? error : far_discard(start, length);
}

void far_free(char *start, size_t length)
{
	char *end = start + length;

	while (start < end) {
		char *low, *high;

		far_next_given_up(start, end, &low, &high);
		if (low > start) {
			const size_t count = (size_t)(low - start);
			int ignored;

			/* Free pages have no access. */
			if (lay_in_child(start, count, PROT_NONE, &ignored))
				served_forget(start, count, false);
			else
				far_discard(start, count);
			window_free(&preload.window, start, count);
		}
		if (high > low)
			lay_fresh(low, (size_t)(high - low), PROT_NONE);
		start = high;
	}
}

void far_fork_prepare(void)
{
	served_fork_prepare();
	pthread_mutex_lock(&given_up.lock);
	remove_lock();
	window_fork_prepare(&preload.window);
}

void far_fork_done(void)
{
	window_fork_done(&preload.window);
	remove_unlock();
	pthread_mutex_unlock(&given_up.lock);
	served_fork_done();
}
