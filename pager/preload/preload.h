/*
 * preload: state and functions that the files of libfarpage-preload.so share.
 *
 * Theory of operation. LD_PRELOAD puts the library in front of an unmodified program. The library gives the program's
 * heap (libmimalloc) and its large anonymous mappings addresses inside one window. It follows munmap, mremap, madvise
 * and fork on them. At first the window is ordinary memory. When enough of the window is in use, the pager is started
 * over it (start.c). From then on the pager keeps the process within its budget.
 *
 * Near and far. Nothing of farpage may live in far memory, because a thread that serves faults must not take one. A
 * thread is near while it runs farpage's code. It allocates from farpage's own heap (near_heap.h) and from the kernel.
 * Threads made by a near thread are near for good (thread.c). The address of a block alone tells which heap it belongs
 * to.
 *
 * A near thread runs inside a foreign program, whose functions take the place of the C library's. So it calls neither
 * malloc nor the resolver, and no function of stdio or that uses a locale. tests/func/preload/near_imports lists the
 * functions that it may call. A thread of the program that enters farpage cannot be cancelled there (pager/entry.h).
 *
 * Layers. Each file calls only files of the lines above, or to its left. Calls of functions that the linker wraps
 * (meson.build) do not count.
 *     kernel, descriptors, near_heap, settings, report
 *     preload: the mode of the process
 *     far, child, keep, thread, start
 *     heap, remap, mapping, closing, library: what the program calls
 *     process: the constructor and the fork handlers
 *
 * Lock order:
 * 1. the lock of start.c
 * 2. preload.lock, held while the pager starts over the window, and while pages are emptied without a pager
 * 3. the locks of far.c
 * 4. the window's own locks
 * 5. the lock of near_heap.c
 */
#ifndef PAGER_PRELOAD_PRELOAD_H
#define PAGER_PRELOAD_PRELOAD_H

#include "pager/entry.h"
#include "pager/pager.h"
#include "pager/preload/settings.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum preload_mode {
	PRELOAD_UNKNOWN, /* no function was called yet */
	PRELOAD_INERT,   /* not configured: the process runs as if the library were absent */
	PRELOAD_WAITING, /* the window is ordinary memory */
	PRELOAD_RUNNING, /* a pager keeps the budget */
	PRELOAD_CHILD,   /* forked from a process with a pager, which still serves the far pages of the fork */
};

struct preload {
	int mode;        /* atomic; read through preload_mode() */
	bool far_heap;   /* far threads allocate from the window */
	bool start_due;  /* enough memory is allocated; the next safe place starts the pager */
	bool own_malloc; /* the program brings its own malloc (heap.c); set by the constructor */
	struct window window;
	struct farpage *farpage;
	struct pager_counters *counters; /* in the report of `farpage run`, or NULL */
	bool forks_followed;             /* forked children keep far memory */
	/* Bytes allocated in the window and likely touched, counted until the pager runs. Atomic. */
	int64_t allocated;
	pthread_mutex_t lock;
	struct settings settings;
};
extern struct preload preload;

/* Greater than 0 in near threads. */
extern __thread unsigned preload_near __attribute__((tls_model("initial-exec")));

/* Reads the environment and reserves the window, once. The first call of any interposed function calls it. */
void preload_begin(void);
/* Returns the mode of this process. The result is right even just after a fork. */
enum preload_mode preload_mode(void);
/* Returns true if the calling thread's memory belongs in the window. */
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
/* Makes the page that a fork wipes. By it, preload_mode() tells a child from its parent. Ends the process if the kernel
   cannot wipe pages. Must be called before preload_run(). */
void preload_mark(void);
/* Changes the mode to RUNNING. preload.lock is held. */
void preload_run(void);
/* Notes that @bytes more of the window are in use, or fewer if @bytes is negative. */
void preload_count(int64_t bytes);
/* Returns true if @name resolves to a function of this library in this process. */
bool preload_has_name(const char *name);
/* Returns true if @address is in the code of the heap (libmimalloc). */
bool preload_is_heap_code(const void *address);
/* Logs @why, unless it is NULL, and ends the process, whose memory would otherwise grow without a bound. */
__attribute__((noreturn)) void preload_give_up(const char *why);

/* --- start.c ---------------------------------------------------------------------------------------------------- */

/* Tells the starter thread to start the pager. Waits until the pager runs, but only for a limited time. Any thread of
   the program may call it, with any of the program's locks held. */
void preload_start(void);
/* Allows starts. The constructor calls this. Before, no pager is started. */
void start_prepare(void);
void start_fork_prepare(void);
void start_fork_done(bool in_child);
static inline void preload_start_if_due(void)
{
	if (__builtin_expect(preload.start_due, false) && !preload_near)
		preload_start();
}

/* --- thread.c --------------------------------------------------------------------------------------------------- */

/* Makes threads in advance. Later pthread_create() calls of near threads get these. Returns 0 or -errno. */
int thread_spares_prepare(void);
/* Forgets those threads in a child, which has none of its parent's threads. */
void thread_spares_forget(void);

/* --- heap.c ----------------------------------------------------------------------------------------------------- */

/* Returns true if malloc resolves to this library's function. */
bool heap_is_ours(void);

/* --- mapping.c --------------------------------------------------------------------------------------------------- */

/* Prepares mapping_is_heap(). Call it once the window is reserved. Returns 0 or -ENOMEM. */
int mapping_prepare(void);
/* Returns true if the heap (libmimalloc) has mapped @address, which lies in the window. */
bool mapping_is_heap(const void *address);

/* --- far.c: pages of the window, in any mode ---------------------------------------------------------------------- */

/* Clips [@address, +@length) to the window, and rounds the length up to pages. Returns false if no part is inside. */
bool far_clip(const void *address, size_t length, char **ret_start, size_t *ret_length);
int far_allocate(size_t length, size_t alignment, void **ret_address);
int far_allocate_at(void *address, size_t length);
/* Waits for the evictor, then calls mprotect(2). A child does not wait: it has no evictor, and the lock may have been
   held at the fork. Returns 0, or -1 with errno. */
int far_protect(void *address, size_t length, int protection);
/* Returns the protection at @start, from /proc, or reading and writing if /proc cannot be read. Sets *@ret_length to
   the part of @length that has this protection. */
int far_protection(const char *start, size_t length, size_t *ret_length);
/* far_note_use() notes that pages were made accessible. far_uses() returns a number that grows with each note. It also
   grows whenever pages are handed out. */
void far_note_use(void);
uint64_t far_uses(void);
/* Makes whole pages read as zeroes. They stay allocated, and keep their protection. Returns 0 or -errno. */
int far_discard(char *start, size_t length);
/* Discards whole pages and frees them. */
void far_free(char *start, size_t length);
/* Gives up pages because the program maps a file or shared memory over them. The pages are emptied, and never handed
   out again. Returns 0, or -ENOMEM if there are too many such places. */
int far_give_up(char *start, size_t length);
/* far_given_up() returns true if any page of the range was given up. far_next_given_up() finds the first stretch of
   given-up pages. If there is none, it sets an empty stretch at @end. */
bool far_given_up(const char *start, size_t length);
void far_next_given_up(const char *start, const char *end, char **ret_start, char **ret_end);

/* Keep a fork from copying held locks. Call prepare before the fork, and done after it in parent and child. */
void far_fork_prepare(void);
void far_fork_done(void);

/* --- child.c: forked children that may outlive their parent and its pager ----------------------------------------- */

/* Call it before the pager starts. Returns 0 or -errno. */
int child_open(void);
void child_prepare(void);
void child_after_in_parent(void);
void child_after_in_child(void);

/* --- keep.c: memory that the kernel uses when a thread ends ------------------------------------------------------- */

/* Keeps the thread descriptor on a stack that the program provides in @attributes local, until its memory is discarded.
   @attributes may be NULL. */
void keep_stack(const pthread_attr_t *attributes);
/* Keeps the memory that was noted before the pager started. preload.lock is held. */
void keep_noted(void);

/* --- descriptors.c: farpage's numbers in the program's descriptor table ------------------------------------------- */

/* Deletes the note of @fd, which farpage is about to close. */
void descriptor_forget(int fd);
bool descriptor_noted(int fd);
/* Returns the first noted number in [@from, @end), or @end. */
uint64_t descriptors_find(uint64_t from, uint64_t end);
/* Deletes the parent's notes in a child, before the child makes any descriptor that it keeps. */
void descriptors_after_in_child(void);

/* --- kernel.c: system calls that bypass the library's interposers ------------------------------------------------- */

void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset);
int kernel_munmap(void *address, size_t length);
int kernel_madvise(void *address, size_t length, int advice);
int kernel_mprotect(void *address, size_t length, int protection);
int kernel_pkey_mprotect(void *address, size_t length, int protection, int key);
void *kernel_mremap(void *address, size_t old_length, size_t new_length, int flags, void *new_address);

/* Marks the functions of this library that the program may see. */
#define PRELOAD_EXPORT __attribute__((visibility("default")))

#endif
