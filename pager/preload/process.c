/*
 * process: the library's constructor, its fork handlers, the ends of the process, and the function that logs a failed
 * assertion and aborts the process. No other file calls this file.
 *
 * Before a fork, the fork handlers take all of farpage's locks in the order of preload.h. After the fork, they release
 * the locks in parent and child. So a child never has a lock that nobody will release.
 *
 * Before the process exits, its forked children get their far pages (child_farewell()). exit(3) runs the destructor.
 * daemon(3) is here, too, because glibc's daemon() calls _exit() inside glibc. A system call that the program makes
 * itself, and a signal, end the process without this.
 */
#include "common/log.h"
#include "pager/preload/near_heap.h"
#include "pager/preload/preload.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void __attribute__((noreturn))
__wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function);
void __wrap___assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
	log_error("%s:%u: %s: this should be so, and is not: %s", file, line, function, what);
	abort();
}

static struct entry fork_entry; /* guarded by preload.lock */

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

static void __attribute__((destructor)) process_end(void)
{
	child_farewell();
}

PRELOAD_EXPORT void __attribute__((noreturn)) _exit(int status)
{
	child_farewell();
	for (;;)
		syscall(SYS_exit_group, status);
}

PRELOAD_EXPORT void __attribute__((noreturn)) _Exit(int status)
{
	_exit(status);
}

PRELOAD_EXPORT int daemon(int keep_folder, int keep_streams)
{
	pid_t child = fork();

	if (child > 0)
		_exit(0);
	if (child < 0 || setsid() < 0)
		return -1;
	if (!keep_folder && chdir("/"))
		return -1;
	if (keep_streams)
		return 0;
	int null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int stream = 0; stream < 3; stream++)
		dup2(null, stream);
	if (null > 2)
		close(null);
	return 0;
}

static void __attribute__((constructor)) process_begin(void)
{
	if (preload_mode() != PRELOAD_WAITING)
		return;
	/* heap_is_ours() calls malloc. If the program has its own malloc, that malloc now registers its fork
	   handlers, before farpage does. The order matters in a child: malloc must be usable before farpage's
	   handlers create a thread. */
	preload.own_malloc = !heap_is_ours();
	preload_near++;
	pthread_atfork(fork_prepare, fork_done_in_parent, fork_done_in_child);
	preload_near--;
	start_prepare();
}
