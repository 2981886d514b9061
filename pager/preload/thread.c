/*
 * thread: makes farpage's threads near (preload.h), from their first instruction to their last. These threads also use
 * the C locale, because a locale that the program has set is in the program's heap.
 *
 * pthread_create() calls malloc. If the program has its own malloc, that malloc may wait for a lock. The thread that
 * holds the lock may wait for a far page, and so for farpage. So in such a program no thread may be created once a page
 * is far. Before that, thread_spares_prepare() creates enough threads. These spare threads sleep until a near thread
 * calls pthread_create(), which then uses one of them.
 */
#include "common/thread.h"

#include "pager/preload/latch.h"
#include "pager/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For control, rebuild, backup, handler, evictor, and a thread that looks up a name. */
#define SPARES 6u
#define SPARE_STACK (512u << 10)

struct near_thread {
	void *(*run)(void *);
	void *argument;
};

static struct {
	struct spare {
		pthread_t thread;
		struct latch called;
		struct near_thread call;
	} all[SPARES];
	unsigned made, taken; /* `taken` is atomic */
} spares;

static void *near_thread_run(void *data)
{
	struct near_thread thread = *(struct near_thread *)data;

	preload_near = 1;
	free(data);
	uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
	return thread.run(thread.argument);
}

static void *spare_run(void *data)
{
	struct spare *spare = data;

	latch_await(&spare->called);
	return spare->call.run(spare->call.argument);
}

int thread_spares_prepare(void)
{
	int error = 0;

	preload_near++;
	while (!error && spares.made < SPARES) {
		struct spare *spare = &spares.all[spares.made];

		error = thread_start(&spare->thread, "farpage-spare", SPARE_STACK, spare_run, spare);
		spares.made += !error;
	}
	preload_near--;
	return error;
}

void thread_spares_forget(void)
{
	spares.made = spares.taken = 0;
	for (unsigned i = 0; i < SPARES; i++)
		spares.all[i].called = (struct latch){0};
}

static int call_spare(pthread_t *ret_thread, const pthread_attr_t *attributes, struct near_thread call)
{
	size_t stack = 0;
	int detached = PTHREAD_CREATE_JOINABLE;

	if (attributes) {
		pthread_attr_getstacksize(attributes, &stack);
		pthread_attr_getdetachstate(attributes, &detached);
	}
	unsigned mine = stack > SPARE_STACK ? UINT_MAX : __atomic_fetch_add(&spares.taken, 1, __ATOMIC_RELAXED);
	if (mine >= spares.made)
		return EAGAIN;
	struct spare *spare = &spares.all[mine];
	*ret_thread = spare->thread;
	if (detached == PTHREAD_CREATE_DETACHED)
		pthread_detach(spare->thread);
	spare->call = call;
	latch_set(&spare->called);
	return 0;
}

PRELOAD_EXPORT int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *),
				  void *argument)
{
	static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!create)
		create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
		    RTLD_NEXT, "pthread_create");
	if (!preload_near) {
		keep_stack(attributes);
		return create(ret_thread, attributes, run, argument);
	}
	if (spares.made == SPARES)
		return call_spare(ret_thread, attributes, (struct near_thread){run, argument});
	struct near_thread *thread = malloc(sizeof *thread);
	if (!thread)
		return EAGAIN;
	*thread = (struct near_thread){run, argument};
	int error = create(ret_thread, attributes, near_thread_run, thread);
	if (error)
		free(thread);
	return error;
}
