/*
 * group: a control group with a memory limit, for a donor and a program that needs the donor's memory. Works with
 * versions 1 and 2 of control groups. The test needs the right to make a group. All calls come from one thread.
 */
#ifndef TESTS_FUNC_MEMSERVER_GROUP_H
#define TESTS_FUNC_MEMSERVER_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct group {
	char path[128], home[4200]; /* folders of the group, and of the test's own group */
	bool second;                /* control groups are of version 2 */
	uint64_t limit;
};

/* Makes a group. @name is different for each group. Returns NULL, or why there is no group. */
const char *group_make(struct group *group, const char *name, uint64_t limit);
/* Removes the group. All its processes must have ended. */
void group_remove(struct group *group);
/* Moves this process into the group, so that its children start there, or back to its own group. */
void group_enter(const struct group *group);
void group_leave(const struct group *group);
/* Returns how many bytes of the limit are available, calculated as a donor does. */
uint64_t group_available(const struct group *group);

/* A process in the group that holds memory until hog_end(). */
struct hog {
	pid_t pid;
	int go;
};
/* Starts the process and waits until it has all @bytes. Returns false if the process ends before. */
bool hog_start(struct hog *hog, const struct group *group, uint64_t bytes);
void hog_end(struct hog *hog);

/* Processes that read a file over and over. The file is larger than their group, so they stall for lack of memory. */
#define THRASHERS 4
struct thrash {
	struct group group;
	char file[64];
	pid_t pids[THRASHERS];
};
/* Starts the processes. Returns NULL, or why that is not possible. */
const char *thrash_start(struct thrash *thrash);
void thrash_end(struct thrash *thrash);
/* Returns how long tasks of this machine have stalled for lack of memory since boot, in us, or 0 if unknown. */
uint64_t stalled_us(void);

#endif
