/*
 * helper_peer: the process at the other end of the helper's connection.
 *
 * Theory of operation. The kernel has recorded the process that called connect(2), and its user. This process may end
 * at any time, and its number may go to a process of another user. So a pidfd (pidfd_open(2)) refers to it. Linux has
 * no call that moves a pidfd's process into a control group; only the number can be used. While a process is traced,
 * its number stays its own even after its end, because the tracer must first take notice of that. So a child of the
 * helper traces the process (ptrace(2)), then makes sure that this number is still that of the pidfd, and moves it. The
 * traced process does not stop, and the tracing ends with the child.
 *
 * Before Linux 6.5 the kernel gives no pidfd of the process that called connect(2), but only its number. If that
 * process ended before the helper began, another process may have its number. Then the helper moves a process only if
 * it has the same user, which could do to that process whatever the helper does.
 *
 * Limits are for each user, so one person must not be several users. With subordinate ids (subuid(5)) a person can have
 * thousands of user ids in a user namespace of his or her own. So a process in another user namespace is refused. A
 * setuid file of such an id gives the id to a process outside, so ids without an account are refused, too.
 *
 * Threads: one. Source: unix(7), Yama in the kernel's Documentation/admin-guide/LSM.
 */
#ifndef CLI_HELPER_PEER_H
#define CLI_HELPER_PEER_H

#include "cli/run/run_group.h"

#include <sys/types.h>

struct helper_peer {
	pid_t pid;
	uid_t uid;
	int fd; /* a pidfd; the kernel closes it when the helper ends */
};

/* Finds the process that has connected @socket. Returns 0 or -errno: -ESRCH if the process has ended, -EPERM if it is
   in another user namespace or its user has no account. */
int helper_peer_find(int socket, struct helper_peer *ret_peer);
/* Returns true if the process has not ended. */
bool helper_peer_lives(const struct helper_peer *peer);
/* Moves the process into @group. Returns 0 or -errno. -ESRCH: the process has ended or has another user now. -EPERM: it
   is traced already, or in another user namespace. -ETIMEDOUT: it cannot be traced within five seconds. */
int helper_peer_move(const struct helper_peer *peer, const struct run_group *group);

#endif
