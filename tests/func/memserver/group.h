/*
 * group: a control group with a memory limit, for a donor and a program that needs its memory. Version 1 or 2; needs
 * the right to make one. One thread.
 */
#ifndef TESTS_FUNC_MEMSERVER_GROUP_H
#define TESTS_FUNC_MEMSERVER_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct group {
	char path[128], home[4200]; /* the group; that of the test itself */
	bool second;                /* version */
	uint64_t limit;
};

/* NULL, or why there is none. @name: of several. */
const char *group_make(struct group *group, const char *name, uint64_t limit);
/* Nobody is in it any more. */
void group_remove(struct group *group);
/* This process goes in, so that what it starts is in there; and out again. */
void group_enter(const struct group *group);
void group_leave(const struct group *group);
/* What is left of the limit, as a donor reckons it. */
uint64_t group_available(const struct group *group);

/* A program in the group that holds so much memory until it is let go of. */
struct hog {
	pid_t pid;
	int go;
};
/* Returns when it has it all; false: it has ended. */
bool hog_start(struct hog *hog, const struct group *group, uint64_t bytes);
void hog_end(struct hog *hog);

/* Programs that read a file again and again which their group is too small for: they stall for lack of memory. */
#define THRASHERS 4
struct thrash {
	struct group group;
	char file[64];
	pid_t pids[THRASHERS];
};
/* NULL, or why it cannot be done. */
const char *thrash_start(struct thrash *thrash);
void thrash_end(struct thrash *thrash);
/* For how long tasks of this machine have stalled for lack of memory since it was started, us; 0: it does not tell. */
uint64_t stalled_us(void);

#endif
