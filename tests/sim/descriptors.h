/*
 * descriptors: the descriptors on which tasks sleep: eventfds, and those of simulated fabrics.
 *
 * Theory of operation. Each descriptor is a real eventfd, so that its number is unique in the process. The simulator
 * never writes to it or reads from it, but keeps its state here.
 *
 * Threads: one.
 */
#ifndef SIM_DESCRIPTORS_H
#define SIM_DESCRIPTORS_H

#include "tests/sim/task.h"

/*
 * Makes a descriptor with the eventfd counter @value. @readable(@what) returns true if it can be read. With NULL the
 * counter decides, as for an eventfd. Returns the descriptor, or -1.
 */
int descriptor_open(uint64_t value, bool (*readable)(const void *what), const void *what);
/* Closes the descriptor. */
void descriptor_close(int fd);
bool descriptor_is_readable(int fd);
/* Calls @call(@what) whenever the descriptor becomes readable. @call NULL ends this. */
void descriptor_watch(int fd, void (*call)(void *what), void *what);
/* Tells the sleeper and the watcher of the descriptor if it is readable now. */
void descriptor_changed(int fd);
/* Returns the number of open descriptors. */
unsigned descriptors_open(void);
/* Closes the descriptors that a failed history has left. */
void descriptors_forget(void);

#endif
