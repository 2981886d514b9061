/*
 * descriptors: what tasks sleep on: eventfds, and the descriptors of simulated fabrics.
 *
 * Theory of operation. Each is a real eventfd, so that its number is nobody else's, that is never written to or read:
 * whether it can be read is kept here.
 *
 * Threads: one.
 */
#ifndef SIM_DESCRIPTORS_H
#define SIM_DESCRIPTORS_H

#include "tests/sim/task.h"

/* A new one. @readable: whether it can be read, asked with @what; NULL: an eventfd's way. */
int descriptor_open(uint64_t value, bool (*readable)(const void *what), const void *what);
/* Not closed by its owner. */
void descriptor_close(int fd);
bool descriptor_is_readable(int fd);
/* @call is made with @what when it becomes readable; NULL: no more. */
void descriptor_watch(int fd, void (*call)(void *what), void *what);
/* It may be readable now: who sleeps on it looks. */
void descriptor_changed(int fd);
/* How many there are. */
unsigned descriptors_open(void);
/* What a failed history has left. */
void descriptors_forget(void);

#endif
