/*
 * served: memory of a forked child that its parent's pager serves (pager/children.h).
 *
 * The pager knows what the child's pages were at the fork, and what has become of them. So it must forget pages where
 * the child has new memory, or none. The child asks it to, and waits for the answer, which the watcher receives
 * (child.c). Only then does the child use its userfaultfd for new memory, because the pager could otherwise place old
 * contents there.
 *
 * If the pager's process has ended, or if the child has no userfaultfd, no new memory is served.
 */
#include "pager/pass.h"
#include "pager/preload/latch.h"
#include "pager/preload/preload.h"
#include "pager/uffd.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock; /* held by the thread that asks, until it has its answer */
	pid_t process;        /* for which the rest is valid, because a forked child inherits it */
	int socket, uffd;     /* child.c owns them */
	bool ended;           /* atomic: nobody answers any more */
	struct latch answer;
	struct pass_message message;
} served = {.lock = PTHREAD_MUTEX_INITIALIZER};

void served_begin(int socket, int uffd)
{
	served.socket = socket;
	served.uffd = uffd;
	served.ended = false;
	served.process = getpid();
}

void served_end(void)
{
	__atomic_store_n(&served.ended, true, __ATOMIC_SEQ_CST);
	latch_set(&served.answer);
}

void served_close(void)
{
	pthread_mutex_lock(&served.lock);
	pthread_mutex_unlock(&served.lock);
}

void served_answered(void)
{
	latch_set(&served.answer);
}

int served_uffd(void)
{
	if (served.process != getpid() || __atomic_load_n(&served.ended, __ATOMIC_SEQ_CST))
		return -1;
	return served.uffd;
}

bool served_forget(const char *start, size_t length, bool is_new)
{
	const struct pass_forget forget = {.address = (uintptr_t)start, .bytes = length, .is_new = is_new};
	bool done = false;

	if (served_uffd() < 0)
		return false;
	struct entry entry = entry_begin();
	pthread_mutex_lock(&served.lock);
	/* First, because served_end() sets the latch after `ended`. */
	__atomic_store_n(&served.answer.set, 0, __ATOMIC_SEQ_CST);
	served.message = (struct pass_message){.fd = -1, .count = sizeof forget / sizeof(uint64_t)};
	memcpy(served.message.words, &forget, sizeof forget);
	if (served_uffd() >= 0 && pass_send(served.socket, PASS_FORGET, &served.message) == 0) {
		if (is_new)
			latch_await(&served.answer);
		done = served_uffd() >= 0;
	}
	pthread_mutex_unlock(&served.lock);
	entry_end(entry, 0);
	return done;
}

void served_add(char *start, size_t length)
{
	int uffd = served_uffd();

	if (uffd >= 0)
		uffd_register(uffd, start, length);
}

void served_fork_prepare(void)
{
	pthread_mutex_lock(&served.lock);
}

void served_fork_done(void)
{
	pthread_mutex_unlock(&served.lock);
}
