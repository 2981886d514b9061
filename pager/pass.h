/*
 * pass: messages between the pager and the forked children of its program. A message has a kind, and may have up to
 * PASS_WORDS words, which is a page, and a descriptor.
 *
 * Theory of operation. A child needs its userfaultfd, which only the pager gets from the kernel. A socket pair is made
 * before the fork (SOCK_SEQPACKET). The child keeps one end, the pager the other one.
 * 1. The pager answers the fork with PASS_SERVED, PASS_POISONED or PASS_REFUSED. If the pager's process has ended, the
 *    child reads end of file.
 * 2. Before the child forks, it sends PASS_ANNOUNCE with one end of a new pair.
 * 3. The pager asks the child to remove pages (reclaim.h), and the child answers.
 * 4. If the child maps new memory, or empties or unmaps memory, the pager forgets what the pages were.
 * 5. Before the pager's process exits, the pager brings all pages of the child back (farewell.h).
 *
 * Any thread may call these functions. They do not allocate.
 */
#ifndef PAGER_PASS_H
#define PAGER_PASS_H

#include <stdint.h>

#define PASS_WORDS 512u

enum pass {
	PASS_SERVED = 's',    /* with the child's userfaultfd, and a word: how many pages are far for the child */
	PASS_POISONED = 'p',  /* there are too many children: the far pages of this one raise SIGBUS */
	PASS_REFUSED = 'r',   /* the same, but the kernel lacks UFFDIO_POISON, so this child must end */
	PASS_REMOVE = 'm',    /* remove these pages, a word with an address for each */
	PASS_FORGOTTEN = 'n', /* the answer to a PASS_FORGET */
	PASS_LOCAL = 'l',     /* no page of the child is far any more. The child answers with the same message. */
	PASS_ANNOUNCE = 'a',  /* to the pager, with the pager's end of the socket pair for the next child */
	PASS_FORGET = 'f',    /* to the pager: a struct pass_forget */
	PASS_CONTENTS = 'c',  /* to the pager: the contents of the next page that was moved */
	PASS_REMOVED = 'd'    /* to the pager: a struct pass_removed. Without words, the child cannot remove pages. */
};

/* A child's answer to a PASS_REMOVE. Bit i is about page i. If no word has the bit of a page, the child still has the
   page. */
struct pass_removed {
	uint64_t dropped; /* was write-protected */
	uint64_t moved;   /* its contents were sent (PASS_CONTENTS), in the order of the bits */
	uint64_t gone;    /* the child has other memory there, or none */
	uint64_t busy;    /* may be asked again */
};

/* Pages of the child that now have other contents: zeroes, or none. */
struct pass_forget {
	uint64_t address, bytes;
	uint64_t is_new; /* 1: new memory, and the child waits for an answer; 0: none */
};

struct pass_message {
	int fd;         /* -1: none */
	unsigned count; /* of words */
	uint64_t words[PASS_WORDS];
};

/* Sends a message. Never blocks. The caller still owns message->fd. Returns 0 or -errno. */
int pass_send(int socket, enum pass what, const struct pass_message *message);
/* Receives a message, without blocking. The caller owns ret_message->fd. Returns the enum pass, 0 if the other end is
   closed, or -errno (-EAGAIN without a message). */
int pass_receive(int socket, struct pass_message *ret_message);

#endif
