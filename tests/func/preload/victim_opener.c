/*
 * One thread opens and closes a library again and again, while another one allocates so much memory that the pager
 * starts. In dlopen() the loader allocates memory with its lock held, and the start needs this lock to create a thread.
 */
#include "tests/func/preload/victim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define PARTS 64

static atomic_bool over;
static atomic_uint opened;

static void *open_again_and_again(void *unused)
{
	while (!atomic_load(&over)) {
		void *library = dlopen("opened_library.so", RTLD_NOW | RTLD_LOCAL);

		opened += library && dlclose(library) == 0;
	}
	return unused;
}

int main(void)
{
	size_t size = victim_size() / PARTS, bad = 0;
	char *parts[PARTS];
	struct timespec begun, ended;
	pthread_t thread;

	alarm(100); /* ends a test that hangs */
	pthread_create(&thread, NULL, open_again_and_again, NULL);
	while (atomic_load(&opened) < 100)
		;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (unsigned i = 0; i < PARTS; i++) {
		parts[i] = malloc(size);
		fill(parts[i], size, i);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < PARTS; i++) {
		bad += wrong(parts[i], size, i, 0);
		free(parts[i]);
	}
	ok(bad == 0, "every page has the contents last written (%zu do not)", bad);
	/* A thread that waits for the start gives up after 10 s (start.c). */
	ok(ended.tv_sec - begun.tv_sec < 9, "the pager starts while a library is being opened, after %ld s",
	   (long)(ended.tv_sec - begun.tv_sec));
	return tap_done();
}
