/*
 * pass: messages between the pager and the forked children of its program. Each message is one byte, and may pass a
 * descriptor.
 *
 * Theory of operation. A child needs its userfaultfd, which only the pager gets from the kernel. A socket pair is made
 * before the fork (SOCK_SEQPACKET). The child keeps one end, the pager the other one.
 * 1. The pager answers the fork with one of the three messages below. If the pager's process has ended, the child
 *    reads end of file.
 * 2. Before the child forks, it sends PASS_ANNOUNCE with one end of a new pair.
 *
 * Any thread may call these functions. They do not allocate.
 */
#ifndef PAGER_PASS_H
#define PAGER_PASS_H

enum pass {
	PASS_SERVED = 's',   /* with the child's userfaultfd */
	PASS_POISONED = 'p', /* there are too many children: the far pages of this one raise SIGBUS */
	PASS_REFUSED = 'r',  /* the same, but the kernel lacks UFFDIO_POISON, so this child must end */
	PASS_ANNOUNCE = 'a'  /* to the pager, with the pager's end of the socket pair for the next child */
};

/* Sends @what and @fd, or no descriptor if @fd is -1. Never blocks. The caller still owns @fd. Returns 0 or -errno. */
int pass_send(int socket, enum pass what, int fd);
/* Receives a message, without blocking. The caller owns *@ret_fd, which is -1 if the message has no descriptor.
   Returns the enum pass, 0 if the other end is closed, or -errno (-EAGAIN without a message). */
int pass_receive(int socket, int *ret_fd);

#endif
