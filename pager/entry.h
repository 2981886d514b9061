/*
 * entry: encloses farpage's code in a thread of the program. The thread cannot be cancelled inside that code, even with
 * PTHREAD_CANCEL_ASYNCHRONOUS. A thread that ended there would leave locks held and pages half moved. A call that
 * succeeds leaves errno unchanged. Entering and leaving make no system call.
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

/* Returns @result. Keeps errno if @result is not 0, and restores it otherwise. */
static inline int entry_end(struct entry entry, int result)
{
	int error = result ? errno : entry.error;
	pthread_setcancelstate(entry.cancel_state, NULL);
	errno = error;
	return result;
}

#endif
