/*
 * uffd: userfaultfd(2) as the pager uses it, with two descriptors.
 *
 * Theory of operation. The window is registered with the first descriptor. When the program touches a missing page, the
 * kernel queues a message on this descriptor, and the handler places the page with UFFDIO_COPY. The kernel reports
 * forks on this descriptor, too.
 *
 * Pages leave the window by UFFDIO_MOVE (Linux 6.8), which moves a page's memory to the landing area without a copy.
 * The move is atomic: a write of the program either is in the moved page, or faults. The kernel requires that the
 * target of a move, here the landing area, is registered with the descriptor of the call. So the landing area has a
 * second descriptor. Its event features are off, because emptying the area must not queue events. take.h describes
 * kernels without UFFDIO_MOVE, and pages that UFFDIO_MOVE refuses.
 *
 * Source: Documentation/admin-guide/mm/userfaultfd.rst, ioctl_userfaultfd(2). uffd.c defines constants that Debian
 * 12's kernel headers lack. The features are probed at run time.
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

/* A message of the first descriptor, decoded. */
enum uffd_kind { UFFD_MISSING, UFFD_PROTECTED, UFFD_FORKED, UFFD_OTHER };
struct uffd_message {
	enum uffd_kind kind;
	bool write;
	pid_t thread;
	uintptr_t address;
	int child; /* UFFD_FORKED: the child's descriptor, which the receiver owns */
};

/* Opens a descriptor by userfaultfd(2), or from /dev/userfaultfd if the system call is not permitted. @flags:
   O_NONBLOCK or 0. Returns the descriptor, -EPERM, -ENOSYS or another -errno. */
int uffd_new(int flags);
/* Returns a text that says why userfaultfd may not be used and what to do, if @error is -EPERM or -ENOSYS. Returns NULL
   for other errors. The text is a constant. */
const char *uffd_lacks(int error);
/* Logs one line if @error is -errno, from uffd_new() or uffd_open(). Returns @error. */
int uffd_explain(int error);
/* Returns true if this kernel has UFFDIO_MOVE, or if no userfaultfd can be opened to find out. */
bool uffd_can_move(void);

/* Registers [@base, +@length) for faults, and [@landing, +@landing_length) as the target of uffd_take(). With
   FARPAGE_NO_MOVE in the environment (for tests), UFFDIO_MOVE is not used, as on older kernels. Returns 0, -EPERM if
   userfaultfd is not permitted, -ENOSYS if the kernel lacks it, -ENOMEM, or -EINVAL. */
int uffd_open(void *base, size_t length, void *landing, size_t landing_length, struct uffd *ret_uffd);
/* Has the faults on the range reported to @fd. Returns 0 or -errno. */
int uffd_register(int fd, void *base, size_t length);
/* Opens a descriptor for uffd_take(), with [@landing, +@length) registered. Returns it or -errno, -EOPNOTSUPP without
   UFFDIO_MOVE. */
int uffd_open_mover(void *landing, size_t length);
/* Closes both descriptors. The kernel then wakes all waiting threads, and missing pages read as zeroes. */
void uffd_close(struct uffd *uffd);

/* Reads up to @max messages, at most 16. Does not wait. Returns their number or -errno. */
int uffd_read(int fd, struct uffd_message *messages, unsigned max);

/*
 * Copies @length bytes to @to and wakes the threads that wait there. Sets *@ret_done to the number of bytes copied,
 * also after an error. Returns 0, or one of:
 * - -EEXIST: a page was present
 * - -EAGAIN: a fork is in progress, and its event must first be read from @fd
 * - -ESRCH: the process has ended
 * - -ENOENT: the memory is no longer registered
 */
int uffd_copy(int fd, void *to, const void *from, size_t length, size_t *ret_done);
/* The same, and write-protects the pages. */
int uffd_copy_protected(int fd, void *to, const void *from, size_t length, size_t *ret_done);
int uffd_wake(int fd, void *address, size_t length);
/* Poisons pages: touching a poisoned page raises SIGBUS. Returns 0, -EOPNOTSUPP if the kernel lacks UFFDIO_POISON,
   -EAGAIN if a fork's event must first be read from @fd, or another -errno. */
int uffd_poison(const struct uffd *uffd, int fd, void *address, size_t length);

/*
 * Moves whole pages from the window to the landing area. Returns the number of bytes moved, which may be less than
 * @length. If the first page was not moved, returns one of:
 * - -ENOENT: the page is absent
 * - -EBUSY: the page is pinned or shared
 * - -EINVAL: the protections of window and landing area differ, or the pages lie in two mappings
 * - -EEXIST: the landing area already has a page there (take.c)
 * - -EAGAIN: try again
 * - -EOPNOTSUPP: the kernel has no UFFDIO_MOVE
 */
ssize_t uffd_take(const struct uffd *uffd, void *landing, void *from, size_t length);
/* Write-protects pages, or ends their protection. A thread that writes to a protected page waits, and the handler
   receives UFFD_PROTECTED. Returns 0 or -errno. */
int uffd_protect(const struct uffd *uffd, void *address, size_t length, bool protect);

#endif
