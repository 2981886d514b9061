/*
 * preload: state and functions that the files of libfarpage-preload.so share.
 *
 * Theory of operation. LD_PRELOAD loads the library before those of an unmodified program. The library then places
 * the program's heap (libmimalloc) and its large anonymous mappings in one window. It replaces munmap, mremap and
 * madvise, so that these functions also work in the window. At first the window is ordinary memory. When the program
 * uses enough of it, start.c starts the pager over the window. From then on the pager holds the process within its
 * budget. Forked children can use far memory, too (child.c).
 *
 * Near and far. Nothing of farpage may be in far memory, because a thread that serves faults cannot wait for its
 * own answer. So a thread is *near* while it runs farpage's code: its allocations come from near_heap.h. Any other
 * thread is far: its allocations come from the window. Threads that a near thread creates are near for their whole
 * life (thread.c). When a block is freed, its address shows which heap it belongs to.
 *
 * A near thread runs in a program that may have replaced any function of the C library. So it does not call malloc,
 * the resolver, stdio, or functions that depend on the locale. tests/func/preload/near_imports lists the functions
 * that it may call. A thread of the program cannot be cancelled while it is in farpage's code (pager/entry.h).
 *
 * Layers. A file calls only files of the lines above, or to its left. Calls of functions that the linker wraps
 * (meson.build) do not count.
 *     kernel, descriptors, limits, near_heap, settings, report
 *     preload: the mode of the process
 *     served, remove, far, child, keep, thread, start
 *     heap, remap, mapping, closing, library: the functions that the program calls
 *     process: the constructor and the fork handlers
 *
 * Lock order:
 * 1. the lock of start.c
 * 2. preload.lock, held while the pager starts over the window, and while pages are emptied without a pager
 * 3. the lock of served.c
 * 4. the lock of far.c
 * 5. the lock of remove.c
 * 6. the window's own locks
 * 7. the lock of near_heap.c
 */
#ifndef PAGER_PRELOAD_PRELOAD_H
#define PAGER_PRELOAD_PRELOAD_H

#include "pager/entry.h"
#include "pager/pager.h"
#include "pager/pass.h"
#include "pager/preload/settings.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum preload_mode {
	PRELOAD_UNKNOWN, /* no function of the library was called yet */
	PRELOAD_INERT,   /* not configured: the library does nothing */
	PRELOAD_WAITING, /* the window is ordinary memory, because the program uses little of it */
	PRELOAD_RUNNING, /* a pager serves the window */
	PRELOAD_CHILD,   /* forked from a RUNNING process, whose pager serves this process's far pages */
};

struct preload {
	int mode;        /* atomic; read it by preload_mode() */
	bool far_heap;   /* the library is configured: far threads allocate from the window */
	bool start_due;  /* the program uses enough of the window; preload_start_if_due() starts the pager */
	bool orphan;     /* a child whose parent's pager has ended; it starts a pager of its own (child.c) */
	bool own_malloc; /* the program brings its own malloc (heap.c); set by the constructor */
	struct window window;
	struct farpage *farpage;
	struct pager_counters *counters; /* in the report of `farpage run` (report.h), or NULL */
	bool forks_followed;             /* forked children can use far memory */
	/* Estimate of the used bytes of the window, while no pager runs. Atomic. */
	int64_t allocated;
	pthread_mutex_t lock;
	struct settings settings;
};
extern struct preload preload;

/* More than 0 while the thread is near. */
extern __thread unsigned preload_near __attribute__((tls_model("initial-exec")));

/* Reads the environment and reserves the window. The first call of any function of the library calls this. */
void preload_begin(void);
/* Returns the mode of this process. Detects a forked child without the help of fork handlers. */
enum preload_mode preload_mode(void);
/* Returns true if the calling thread must allocate from the window. */
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
/* Makes a page that the kernel zeroes in forked children, so that preload_mode() recognises a child. Must be called
   before preload_run(). Ends the process if the kernel has no such pages. */
void preload_mark(void);
/* Changes the mode to RUNNING. preload.lock is held. */
void preload_run(void);
/* Changes the mode of a CHILD to WAITING. preload.lock is held. */
void preload_wait_again(void);
/* Adds @bytes to the estimate of the window's use. @bytes may be negative. */
void preload_count(int64_t bytes);
/* Returns true if @name resolves to a function of this library in this process. */
bool preload_has_name(const char *name);
/* Returns true if @address is in the code of the heap (libmimalloc). */
bool preload_is_heap_code(const void *address);
/* Returns true if @address is in the code of the loader (ld.so). */
bool preload_is_loader_code(const void *address);
/* Ends the process, whose memory would otherwise grow without bound. Logs @why first, unless it is NULL. */
__attribute__((noreturn)) void preload_give_up(const char *why);

/* --- start.c ---------------------------------------------------------------------------------------------------- */

/* Asks the starter thread to start the pager, and waits for a limited time until it runs. Any thread of the program
   may call it, also while it holds locks of the program. */
void preload_start(void);
/* From this call on, preload_start() has an effect. The constructor calls this function. */
void start_prepare(void);
/* Makes another start possible, in a child that starts a pager of its own. Must be called while no thread waits for a
   start. */
void start_again(void);
/* Starts the pager, and does not wait for it. */
void start_at_once(void);
/* Waits until no start is under way, at most as long as preload_start(). Any thread, also in a signal handler. */
void start_settle(void);
void start_fork_prepare(void);
void start_fork_done(bool in_child);
static inline void preload_start_if_due(void)
{
	if (__builtin_expect(preload.start_due, false) && !preload_near)
		preload_start();
}

/* --- thread.c --------------------------------------------------------------------------------------------------- */

/* Creates spare threads. From then on, each pthread_create() of a near thread uses a spare thread. Returns 0 or
   -errno. */
int thread_spares_prepare(void);
/* Forgets the spare threads in a forked child, which has none of its parent's threads. */
void thread_spares_forget(void);

/* --- heap.c ----------------------------------------------------------------------------------------------------- */

/* Returns true if the program's malloc is this library's. */
bool heap_is_ours(void);

/* --- mapping.c --------------------------------------------------------------------------------------------------- */

/* Addresses kept free above the window, in bytes, where a reservation larger than the window goes on. */
#define MAPPING_ROOM ((size_t)2 << 40)

/* Allocates the table for mapping_is_heap(). Must be called once the window is reserved. Returns 0 or -ENOMEM. */
int mapping_prepare(void);
/* Returns true if the heap (libmimalloc) has mapped @address, which lies in the window. */
bool mapping_is_heap(const void *address);

/* --- served.c: new memory of a forked child, which its parent's pager serves -------------------------------------- */

/* New memory of this process can be served from now on. @socket is the one to the pager, @uffd this process's
   userfaultfd. Called before the watcher starts. With -1 for both, no new memory is served. */
void served_begin(int socket, int uffd);
/* Nobody answers any more. Only the watcher calls this. */
void served_end(void);
/* Called after served_end(), while no thread forks. When this returns, no thread uses the socket, and threads use the
   userfaultfd only while they hold the lock of remove.c. */
void served_close(void);
/* Hands an answer of the pager to the thread that waits for it. Only the watcher calls this. */
void served_answered(void);
/* Returns this process's userfaultfd, or -1 if new memory cannot be served. */
int served_uffd(void);
/* Has the pager forget what it knows of the range. If @is_new is true, waits until the pager has done so. Returns false
   if there is no pager that does. The caller holds neither the lock of far.c nor that of remove.c. */
bool served_forget(const char *start, size_t length, bool is_new);
/* Has the pager serve the range, which the pager has forgotten. If that fails, the memory stays local. */
void served_add(char *start, size_t length);
/* Hold the lock during a fork. */
void served_fork_prepare(void);
void served_fork_done(void);

/* --- far.c: pages of the window, without a pager, with one, and in a forked child --------------------------------- */

/* Clips [@address, +@length) to the window, and rounds the length up to pages. Returns false if the range has no
   part in the window. */
bool far_clip(const void *address, size_t length, char **ret_start, size_t *ret_length);
/* Allocate @length bytes of the window. Return 0, or -ENOMEM if there is no room or the program's limit forbids it. The
   second function returns -EEXIST if a page is allocated already, and -EINVAL outside the window. */
int far_allocate(size_t length, size_t alignment, void **ret_address);
int far_allocate_at(void *address, size_t length);
/* Calls mprotect(2). Waits while the evictor relies on the protections (take.h). A forked child does not wait,
   because it has no evictor, and its copy of the lock may be held for ever. Returns 0, or -1 with errno. */
int far_protect(void *address, size_t length, int protection);
/* Does the same by pkey_mprotect(2). */
int far_protect_by_key(void *address, size_t length, int protection, int key);
/* Makes a CHILD WAITING, as preload_wait_again() does, while no other thread maps memory or changes protections. */
void far_leave_child(void);
/* Returns the protection at @start, as /proc says, or PROT_READ | PROT_WRITE if /proc cannot be read. Sets
   *@ret_length to the part of @length with this protection. */
int far_protection(const char *start, size_t length, size_t *ret_length);
/* far_uses() returns a counter. The counter grows whenever pages are allocated, or far_note_use() reports that pages
   were made accessible. While the counter is unchanged, a new reservation is still empty (mapping.c). */
void far_note_use(void);
uint64_t far_uses(void);
/* Makes whole pages read as zeroes. They stay allocated and protected as they are. Returns 0 or -errno. */
int far_discard(char *start, size_t length);
/* Discards and frees whole pages. */
void far_free(char *start, size_t length);
/* Withdraws pages from use as far memory, because the program maps a file or shared memory over them. Empties them;
   they are never allocated again. Returns 0, or -ENOMEM if there are too many such ranges. */
int far_give_up(char *start, size_t length);
/* far_given_up() returns true if a page of the range was withdrawn by far_give_up(). far_next_given_up() finds the
   first stretch of such pages. If there are no such pages, far_next_given_up() returns an empty stretch at @end. */
bool far_given_up(const char *start, size_t length);
void far_next_given_up(const char *start, const char *end, char **ret_start, char **ret_end);

/* Hold the locks during a fork, as window_fork_prepare() and window_fork_done() do. */
void far_fork_prepare(void);
void far_fork_done(void);

/* --- child.c: forked children that may outlive their parent and its pager ----------------------------------------- */

/* Prepares for forks. Must be called before the pager starts. Returns 0 or -errno. */
int child_open(void);
void child_prepare(void);
void child_after_in_parent(void);
void child_after_in_child(void);
/* Must be called before the process exits. Brings far pages of forked children back (pager/farewell.h). */
void child_farewell(void);

/* --- remove.c: removes pages of a forked child -------------------------------------------------------------------- */

/* While the lock is held, no memory is mapped over the window, and the process does not fork. */
void remove_lock(void);
void remove_unlock(void);
/* Prepares this process, a forked child whose userfaultfd is @uffd, to remove its own pages. Called during the fork. */
void remove_open(int uffd);
/* Returns true if this process can remove its own pages. Otherwise nothing bounds its new memory, so that memory stays
   local. The caller holds the lock. */
bool remove_is_possible(void);
/* Removes the pages of a PASS_REMOVE from this process, and answers over @socket. @pager is the pager's process (a
   pidfd). Only the watcher calls this. */
void remove_pages(const struct pass_message *request, int socket, int pager);
/* Undoes remove_open(), when the pager's process has ended. The caller holds the lock. */
void remove_close(void);
/* Closes the parent's descriptors in a forked child. */
void remove_after_in_child(void);

/* --- keep.c: memory that the kernel uses when a thread ends ------------------------------------------------------- */

/* Keeps in local memory the thread descriptor on a stack that the program provides in @attributes, until the stack
   is discarded. @attributes may be NULL. */
void keep_stack(const pthread_attr_t *attributes);
/* Keeps the memory that was noted while no pager ran. preload.lock is held. */
void keep_noted(void);

/* --- descriptors.c: farpage's numbers in the program's descriptor table ------------------------------------------- */

/* Notes @fd, unless it is -1. */
void descriptor_note(int fd);
/* Removes @fd, which farpage is about to close, from the noted descriptors. */
void descriptor_forget(int fd);
bool descriptor_noted(int fd);
/* Returns the first noted descriptor in [@from, @end), or @end if there is none. */
uint64_t descriptors_find(uint64_t from, uint64_t end);
/* Forgets the parent's descriptors in a forked child. Must be called before the child opens descriptors of its
   own. */
void descriptors_after_in_child(void);

/* --- limits.c: the program's limit of address space --------------------------------------------------------------- */

/* Raises the kernel's limit (RLIMIT_AS) by farpage's share. @window is the size of the window in bytes. Must be called
   before the window is reserved. */
void limits_begin(size_t window);
/* Returns true if the program's limit allows @bytes in use in the window. */
bool limits_allow(uint64_t bytes);

/* --- kernel.c: system calls that bypass the library's interposers ------------------------------------------------- */

void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset);
int kernel_munmap(void *address, size_t length);
int kernel_madvise(void *address, size_t length, int advice);
int kernel_mprotect(void *address, size_t length, int protection);
int kernel_pkey_mprotect(void *address, size_t length, int protection, int key);
void *kernel_mremap(void *address, size_t old_length, size_t new_length, int flags, void *new_address);

/* The program can call this function. */
#define PRELOAD_EXPORT __attribute__((visibility("default")))

#endif
