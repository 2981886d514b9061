/*
 * entry: what surrounds farpage's code in a thread of the program. Inside, the thread cannot be cancelled, be it at
 * a wait of ours (cancellation points where the program's call is none) or anywhere (PTHREAD_CANCEL_ASYNCHRONOUS): a
 * thread that ended there would leave locks held and pages half way. A call that succeeds leaves errno as it was.
 * No system call is made.
 */
#ifndef PAGER_ENTRY_H
#define PAGER_ENTRY_H

#include <errno.h>
#include <pthread.h>

struct entry {
	int cancel_state, error;
};

static inline struct entry entry_begin(void)
{
	struct entry entry = {.error = errno};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &entry.cancel_state);
	return entry;
}

/* Returns @result. If it is not 0, errno is the call's. */
static inline int entry_end(struct entry entry, int result)
{
	int error = result ? errno : entry.error;
	pthread_setcancelstate(entry.cancel_state, NULL);
	errno = error;
	return result;
}

#endif
