/*
 * descriptors: the descriptors on which tasks sleep: eventfds, and the descriptors of simulated fabrics.
 *
 * Theory of operation. Each descriptor is a real eventfd, so that no other descriptor of the process has its number.
 * But its counter is simulated: it is stored here, and the real eventfd is neither read nor written.
 *
 * Threads: one.
 */
#ifndef SIM_DESCRIPTORS_H
#define SIM_DESCRIPTORS_H

#include "tests/sim/task.h"

/*
 * Makes a descriptor with the counter @value. @readable(@what) says if it is readable. If @readable is NULL, it is
 * readable while the counter is not 0, like an eventfd. Returns the descriptor, or -1.
 */
int descriptor_open(uint64_t value, bool (*readable)(const void *what), const void *what);
void descriptor_close(int fd);
bool descriptor_is_readable(int fd);
/* From now on @call(@what) is called whenever the descriptor becomes readable. With a NULL @call, nothing is called
   any more. */
void descriptor_watch(int fd, void (*call)(void *what), void *what);
/* Must be called when the descriptor may have become readable. Wakes the task that sleeps on it, and makes the call
   of descriptor_watch(). */
void descriptor_changed(int fd);
/* Returns the number of open descriptors. */
unsigned descriptors_open(void);
/* Closes the descriptors that a failed history has not closed. */
void descriptors_forget(void);

#endif
