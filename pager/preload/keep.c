/*
 * keep: finds the memory that the kernel accesses when a thread ends, and keeps this memory local (pager/keep.h). It
 * finds:
 * - pages with robust mutexes
 * - pages with thread descriptors, at the top of stacks that the program provides
 *
 * Stacks that the C library makes are always local. A robust list that the program itself sets (set_robust_list) is
 * not kept.
 *
 * Theory of operation. While no pager runs, this file notes the pages in a table. When the pager starts, keep_noted()
 * gives the noted pages to the pager. If the table is full, or the pager keeps no more, one log line says so.
 *
 * Any thread may call these functions. preload.lock guards the table.
 */
#include "common/format.h"
#include "common/log.h"
#include "pager/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define NOTED_MAX 1024

static struct {
	char *pages[NOTED_MAX];
	unsigned count;
} noted;

static void tell(const char *why)
{
	static bool told;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the callers are not cancellation points */
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		log_error("cannot keep all robust mutexes and threads' own stacks in local memory: %s; where an owner "
			  "ends, waiters may not hear of it",
			  why);
	pthread_setcancelstate(cancel_state, NULL);
}

/* Notes @page. preload.lock is held. */
static void note(char *page)
{
	for (unsigned i = noted.count; i > 0; i--)
		if (noted.pages[i - 1] == page)
			return;
	if (noted.count == NOTED_MAX)
		tell("there are too many");
	else
		noted.pages[noted.count++] = page;
}

static void keep(char *page)
{
	if (far_given_up(page, WINDOW_PAGE) || !window_allocated(&preload.window, page, WINDOW_PAGE))
		return;
	int error = pager_keep(preload.farpage, page);
	if (error)
		tell(error == -ENOSPC ? "they take a quarter of --local" : format_errno(error));
}

/* Keeps the far memory in [@address, +@length) local until it is discarded. */
static void keep_memory(const void *address, size_t length)
{
	char *start, *page;

	if (!far_clip(address, length, &start, &length))
		return;
	preload_near++;
	for (page = start - (uintptr_t)start % WINDOW_PAGE; page < (char *)address + length; page += WINDOW_PAGE) {
		pthread_mutex_lock(&preload.lock);
		enum preload_mode mode = preload_mode();
		if (mode == PRELOAD_WAITING)
			note(page);
		pthread_mutex_unlock(&preload.lock);
		if (mode == PRELOAD_RUNNING)
			keep(page);
	}
	preload_near--;
}

void keep_noted(void)
{
	for (unsigned i = 0; i < noted.count; i++)
		keep(noted.pages[i]);
	noted.count = 0;
}

void keep_stack(const pthread_attr_t *attributes)
{
	void *stack;
	size_t size;

	if (!attributes || pthread_attr_getstack(attributes, &stack, &size) || size < WINDOW_PAGE)
		return;
	/* glibc places a thread's descriptor, of some 2,300 bytes, at the top of the stack. */
	keep_memory((char *)((uintptr_t)stack + size - WINDOW_PAGE), WINDOW_PAGE);
}

PRELOAD_EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	static int (*init)(pthread_mutex_t *, const pthread_mutexattr_t *);
	int robust = PTHREAD_MUTEX_STALLED;

	if (!init)
		init = (int (*)(pthread_mutex_t *, const pthread_mutexattr_t *))dlsym(RTLD_NEXT, "pthread_mutex_init");
	int error = init(mutex, attributes);
	if (!error && attributes && !pthread_mutexattr_getrobust(attributes, &robust) && robust == PTHREAD_MUTEX_ROBUST)
		keep_memory(mutex, sizeof *mutex);
	return error;
}
