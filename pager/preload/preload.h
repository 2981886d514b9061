/*
 * preload: what the files of libfarpage-preload.so share.
 *
 * Theory of operation. The library is put in front of an unmodified program with LD_PRELOAD. It gives the program's
 * heap (libmimalloc) and its large anonymous mappings addresses inside one window, and follows munmap, mremap, madvise
 * and fork on them. At first the window is ordinary memory; when enough of it is in use, the pager is started over it
 * and keeps the process within its budget from then on (process.c).
 *
 * Near and far. Nothing of farpage may live in far memory: a thread that serves faults must not take one. A thread is
 * near while it runs farpage's code; what it allocates comes from farpage's own heap (near_heap.h) and from the kernel.
 * Threads made by a near thread are near for good (thread.c). Whose heap a block belongs to is told by its address
 * alone.
 *
 * A near thread runs inside a strange program, whose names come before the C library's. So it calls no malloc by name,
 * nothing of stdio, nothing that looks at a locale, and no resolver: tests/func/preload/near_imports says what it may
 * call. A thread of the program that enters farpage cannot be cancelled there (pager/entry.h).
 *
 * Locks, in this order: that of start.c, preload.lock (the pager comes over the window, and emptying pages while none
 * is there), those of far.c, the window's own, near_heap.c's.
 */
#ifndef PAGER_PRELOAD_PRELOAD_H
#define PAGER_PRELOAD_PRELOAD_H

#include "pager/entry.h"
#include "pager/pager.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum preload_mode {
	PRELOAD_UNKNOWN, /* nothing was asked of us yet */
	PRELOAD_INERT,   /* not told to do anything: the process runs as if we were not there */
	PRELOAD_WAITING, /* the window is ordinary memory */
	PRELOAD_RUNNING, /* a pager keeps the budget */
	PRELOAD_CHILD,   /* forked from a process with a pager, which serves what was far at the fork */
};

struct preload {
	int mode;        /* atomic; read through preload_mode() */
	bool far_heap;   /* the heap of far threads is the window's */
	bool start_due;  /* enough is allocated; the next safe place starts the pager */
	bool own_malloc; /* the program brings its own malloc (heap.c); set by our constructor */
	struct window window;
	struct farpage *farpage;
	struct pager_counters *counters; /* in `farpage run`'s report; or NULL */
	bool forks_followed;             /* children keep far memory */
	int64_t allocated; /* bytes allocated in the window and likely touched, atomic; until the pager runs */
	pthread_mutex_t lock;
};
extern struct preload preload;

/* > 0 in near threads. */
extern __thread unsigned preload_near __attribute__((tls_model("initial-exec")));

/* Reads the environment and reserves the window, once; from the first call of anything. */
void preload_begin(void);
/* The mode of this process, also right after a fork. */
enum preload_mode preload_mode(void);
/* True when the calling thread's memory belongs in the window. */
static inline bool preload_is_far(void)
{
	if (__builtin_expect(preload.far_heap, true))
		return !preload_near;
	if (__builtin_expect(preload.mode == PRELOAD_UNKNOWN, false)) {
		preload_begin();
		return preload.far_heap && !preload_near;
	}
	return false;
}
/* Notes that @bytes more (or less) of the window are in use. */
void preload_count(int64_t bytes);
/* Whether @name, as everybody in this process calls it, is this library's. */
bool preload_has_name(const char *name);
/* Ends the process, with that line: it must not go on with memory that nothing bounds. @why NULL: it was said. */
__attribute__((noreturn)) void preload_give_up(const char *why);

/* --- start.c ---------------------------------------------------------------------------------------------------- */

/* Has the pager started, and waits for it for a while; any thread of the program, with any locks of the program held.
 */
void preload_start(void);
/* From the constructor: before it nothing is started. */
void start_prepare(void);
void start_fork_prepare(void);
void start_fork_done(bool in_child);
/* Starts the pager, or ends the process; for start.c alone (process.c). */
void preload_start_pager(void);
static inline void preload_start_if_due(void)
{
	if (__builtin_expect(preload.start_due, false) && !preload_near)
		preload_start();
}
/* True for addresses of code of the heap (libmimalloc). */
bool preload_is_heap_code(const void *address);

/* --- thread.c --------------------------------------------------------------------------------------------------- */

/* Makes the threads that later pthread_create calls of near threads are given. -errno. */
int near_threads_prepare(void);
/* In a child, which has none of its parent's threads. */
void near_threads_forget(void);

/* Whether malloc, by name, is ours (heap.c). */
bool heap_is_ours(void);

/* --- far.c: pages of the window, in whatever mode --------------------------------------------------------------- */

/* The part of [@address, +@length) inside the window: false when there is none. */
bool far_clip(const void *address, size_t length, char **ret_start, size_t *ret_length);
int far_allocate(size_t length, size_t alignment, void **ret_address);
int far_allocate_at(void *address, size_t length);
/* mprotect(2), which waits for the evictor. In a child there is none, and its lock may have been held at the fork. */
int far_protect(void *address, size_t length, int protection);
/* Pages were made accessible: far_uses() grows, as it does whenever some are handed out. */
void far_note_use(void);
uint64_t far_uses(void);
/* Makes whole pages read as zeroes, keeping them allocated. */
int far_discard(char *start, size_t length);
/* Discards whole pages and frees them. */
void far_free(char *start, size_t length);
/* The program maps something else (a file, shared memory) over pages of the window: they are emptied, and never again
   given to anybody. -ENOMEM: too many such places. */
int far_give_up(char *start, size_t length);
/* Whether any page of the range was given up; and the first stretch of it that was: empty, at @end, when none was. */
bool far_given_up(const char *start, size_t length);
void far_next_given_up(const char *start, const char *end, char **ret_start, char **ret_end);

/* A fork in between must not copy held locks: before in the parent, after in both. */
void far_fork_prepare(void);
void far_fork_done(void);

/* --- child.c: forked children whose parent, and pager, may end before them ---------------------------------------- */

/* Before the pager starts. -errno. */
int child_open(void);
void child_prepare(void);
void child_after_in_parent(void);
void child_after_in_child(void);

/* --- keep.c: memory that the kernel uses when a thread ends ------------------------------------------------------- */

/* Far memory in [@address, +@length) is to stay local until it is discarded. */
void keep_memory(const void *address, size_t length);
/* The same for what a thread made with @attributes (or NULL) has of it on a stack of the program's. */
void keep_stack(const pthread_attr_t *attributes);
/* The pager has started. preload.lock is held. */
void keep_noted(void);

/* --- descriptors.c: numbers in the program's table that are farpage's -------------------------------------------- */

/* Moves @fd, just made by farpage, to a high number, which is noted, and returned. -1 and errno: it is gone. Negative
   ones are returned as they are. */
int descriptor_keep(int fd);
/* About to be closed by farpage. */
void descriptor_forget(int fd);
bool descriptor_noted(int fd);
/* The first noted number in [@from, @end), or @end. */
uint64_t descriptors_find(uint64_t from, uint64_t end);
/* Before anything that a child keeps is made there. */
void descriptors_after_in_child(void);

/* --- kernel.c: system calls that do not pass our own interposers ------------------------------------------------- */

void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset);
int kernel_munmap(void *address, size_t length);
int kernel_madvise(void *address, size_t length, int advice);
int kernel_mprotect(void *address, size_t length, int protection);
int kernel_pkey_mprotect(void *address, size_t length, int protection, int key);
void *kernel_mremap(void *address, size_t old_length, size_t new_length, int flags, void *new_address);

/* What this library shows to the program. */
#define PRELOAD_EXPORT __attribute__((visibility("default")))

#endif
