/*
 * uffd: userfaultfd(2) as the pager uses it. One descriptor receives the faults of the window. Another one takes pages
 * out of the window.
 *
 * Theory of operation. The handler thread alone answers missing pages of the window, by UFFDIO_COPY. Pages leave by
 * UFFDIO_MOVE (Linux 6.8). The page itself changes hands atomically, so no write of the program can fall between
 * reading the page and dropping it. MOVE wants its *target* registered with the descriptor that it is called on. So the
 * landing area belongs to a second descriptor. That one has no event features, so that emptying the area raises no
 * events. take.h describes kernels without MOVE, and pages that MOVE refuses.
 *
 * Source: Documentation/admin-guide/mm/userfaultfd.rst, ioctl_userfaultfd(2). uffd.c defines the constants that are
 * newer than Debian 12's kernel headers. The features are probed at run time.
 */
#ifndef PAGER_UFFD_H
#define PAGER_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uffd {
	int fd;          /* faults and fork events of the window; non-blocking */
	int mover;       /* the descriptor of the landing area, or -1 without UFFDIO_MOVE */
	bool can_poison; /* UFFDIO_POISON, Linux 6.6 */
	bool sees_forks; /* UFFD_FEATURE_EVENT_FORK, needs CAP_SYS_PTRACE */
};

/* A decoded message of the descriptor. */
enum uffd_kind { UFFD_MISSING, UFFD_PROTECTED, UFFD_FORKED, UFFD_OTHER };
struct uffd_message {
	enum uffd_kind kind;
	bool write;
	pid_t thread;      /* the faulting thread */
	uintptr_t address; /* the address of the fault */
	int child;         /* UFFD_FORKED: the child's descriptor, which the receiver owns */
};

/* Returns true if this kernel has UFFDIO_MOVE. Also returns true if no userfaultfd can be opened to find out. */
bool uffd_can_move(void);

/*
 * Registers [@base, +@length) for faults, and [@landing, +@landing_length) as the target of uffd_take(). With
 * FARPAGE_NO_MOVE in the environment (for tests), it does without UFFDIO_MOVE, as on older kernels. Returns 0, -EPERM
 * if the system call is not permitted, -ENOSYS if the kernel lacks it, -ENOMEM, or -EINVAL.
 */
int uffd_open(void *base, size_t length, void *landing, size_t landing_length, struct uffd *ret_uffd);
/* Closes both descriptors. The kernel wakes the faults that still wait, and their pages read as zeroes. */
void uffd_close(struct uffd *uffd);

/* Reads up to @max messages, at most 16, without waiting. Returns their number or -errno. */
int uffd_read(int fd, struct uffd_message *messages, unsigned max);

/*
 * Places @length bytes at @to and wakes the threads that wait there. *@ret_done is the number of bytes placed, also
 * after a failure. Returns 0, or one of:
 * - -EEXIST: a page was present
 * - -EAGAIN: an event must be read from @fd first
 * - -ESRCH: the process is gone
 * - -ENOENT: no registered memory is there any more
 */
int uffd_copy(int fd, void *to, const void *from, size_t length, size_t *ret_done);
int uffd_wake(int fd, void *address, size_t length);
/* Makes the pages raise SIGBUS when touched. Returns 0, -EOPNOTSUPP if the kernel lacks UFFDIO_POISON, -EAGAIN if an
   event must be read from @fd first, or another -errno. */
int uffd_poison(const struct uffd *uffd, int fd, void *address, size_t length);

/*
 * Moves whole pages from the window to the landing area. Returns the number of bytes moved, which may be less than
 * @length. If the first page did not move, returns one of:
 * - -ENOENT: the page is absent
 * - -EBUSY: the page is pinned or shared
 * - -EINVAL: the protections differ, or the pages cross the edge of a mapping
 * - -EEXIST: a page is in the landing area already (take.c)
 * - -EAGAIN: try again
 * - -EOPNOTSUPP: there is no UFFDIO_MOVE
 */
ssize_t uffd_take(const struct uffd *uffd, void *landing, void *from, size_t length);
/* Write-protects pages, or unprotects them. Writers wait (UFFD_PROTECTED) until the pages are unprotected or dropped.
   Returns 0 or -errno. */
int uffd_protect(const struct uffd *uffd, void *address, size_t length, bool protect);

#endif
