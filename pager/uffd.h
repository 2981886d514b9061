/*
 * uffd: userfaultfd(2) as the pager uses it: one descriptor that faults of the window arrive on, and one that takes
 * pages out of it.
 *
 * Theory of operation. Missing pages are answered with UFFDIO_COPY, by the handler thread alone. Pages leave by
 * UFFDIO_MOVE (kernel 6.8): the page itself changes hands, atomically, so no write of the program can fall between
 * reading it and dropping it. MOVE wants its *target* registered with the descriptor it is called on; the landing
 * area belongs to a second descriptor without event features, so that emptying it raises no events. Kernels without
 * MOVE, and pages it refuses, are write-protected, copied and dropped instead.
 *
 * Source: Documentation/admin-guide/mm/userfaultfd.rst, ioctl_userfaultfd(2). The constants newer than Debian 12's
 * kernel headers are defined in uffd.c and probed at run time.
 */
#ifndef PAGER_UFFD_H
#define PAGER_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uffd {
	int fd;          /* faults and fork events of the window; non-blocking */
	int mover;       /* the landing area's; -1 without UFFDIO_MOVE */
	bool can_poison; /* UFFDIO_POISON, kernel 6.6 */
	bool sees_forks; /* UFFD_FEATURE_EVENT_FORK, needs CAP_SYS_PTRACE */
};

/* One message of the descriptor, decoded. */
enum uffd_kind { UFFD_MISSING, UFFD_PROTECTED, UFFD_FORKED, UFFD_OTHER };
struct uffd_message {
	enum uffd_kind kind;
	bool write;
	pid_t thread;      /* of the fault */
	uintptr_t address; /* of the fault */
	int child;         /* UFFD_FORKED: the child's descriptor, owned by the receiver */
};

/* Whether this kernel has UFFDIO_MOVE; also true when no userfaultfd can be had, for then nothing can be asked. */
bool uffd_can_move(void);

/*
 * Registers [@base, +@length) for faults, and [@landing, +@landing_length) as the target of uffd_take.
 * FARPAGE_NO_MOVE in the environment makes it do without UFFDIO_MOVE, as older kernels do (tests).
 * -EPERM: the system call is not permitted; -ENOSYS: not in this kernel; -ENOMEM, -EINVAL.
 */
int uffd_open(void *base, size_t length, void *landing, size_t landing_length, struct uffd *ret_uffd);
/* Closes both; faults still waiting are woken by the kernel and then read zeroes. */
void uffd_close(struct uffd *uffd);

/* Reads up to @max messages without waiting; how many, or -errno. */
int uffd_read(int fd, struct uffd_message *messages, unsigned max);

/*
 * Places @length bytes at @to and wakes whoever waits there. 0; -EEXIST: a page was there (those before it are in
 * place: *ret_done bytes); -EAGAIN: an event must be read from @fd first; -ESRCH: the process is gone; -ENOENT: no
 * registered memory there any more.
 */
int uffd_copy(int fd, void *to, const void *from, size_t length, size_t *ret_done);
int uffd_wake(int fd, void *address, size_t length);
/* Makes the page raise SIGBUS when touched. -EOPNOTSUPP where the kernel cannot. */
int uffd_poison(const struct uffd *uffd, int fd, void *address, size_t length);

/*
 * Moves whole pages from the window to the landing area. Returns the bytes moved, which may be fewer than @length;
 * or, when the first page did not move: -ENOENT it is not there, -EBUSY pinned or shared, -EINVAL protection differs,
 * -EAGAIN try again, -EOPNOTSUPP no UFFDIO_MOVE.
 */
ssize_t uffd_take(const struct uffd *uffd, void *landing, void *from, size_t length);
/* Until uffd_protect(false) or the page is dropped, writers wait (UFFD_PROTECTED). */
int uffd_protect(const struct uffd *uffd, void *address, size_t length, bool protect);

#endif
