/*
 * entry: protects farpage's code that runs in a thread of the program. Between entry_begin() and entry_end() the thread
 * cannot be cancelled, even with PTHREAD_CANCEL_ASYNCHRONOUS. Otherwise a cancelled thread could leave a lock held or a
 * page in an in-between state for ever. If the code in between succeeded, entry_end() restores errno. Neither function
 * makes a system call.
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

/* Returns @result. If @result is 0, restores errno; otherwise keeps the error in errno. */
static inline int entry_end(struct entry entry, int result)
{
	int error = result ? errno : entry.error;

	pthread_setcancelstate(entry.cancel_state, NULL);
	errno = error;
	return result;
}

#endif
