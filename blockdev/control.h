/*
 * control: how the daemon of a device is asked: one message to its socket, one message back.
 *
 * Theory of operation. The socket (Unix, seqpacket) is in the device's folder, which root alone can enter. A request is
 * a word; the answer to "status" is a line of JSON (status.h), to the others "ok", or "error: " and why. The socket is
 * opened by the keeper and outlives a worker that dies, so that a question waits for the next one. Whoever gives up
 * waiting takes no answer from then on, so both sides agree on whether there was one.
 *
 * Threads: any; the daemon's side is its main thread. Nothing here allocates.
 */
#ifndef BLOCKDEV_CONTROL_H
#define BLOCKDEV_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#define CONTROL_REPLY_MAX 32768

enum control_verb {
	CONTROL_STATUS,
	CONTROL_DETACH, /* end the device, and the daemon; refused when it is in use */
	CONTROL_LEAVE,  /* end the daemon, leaving the device to the next */
	CONTROL_VERBS
};

/* The daemon's: a listening socket at @path, which is made. */
int control_listen(const char *path, int *ret_socket);
/* Takes the next connection that has come; -EAGAIN: none. */
int control_accept(int socket, int *ret_connection);
/* The word that came on it. -EAGAIN: not yet; -EINVAL: something else, and the sender was told; 0 is a verb. */
int control_receive(int connection, enum control_verb *ret_verb);
/* -errno: it does not get there, for whoever asked has given up. */
int control_reply(int connection, const char *text);
/* Whether whoever asked still waits for the answer. */
bool control_is_awaited(int connection);

/* Asks the daemon of device @name; the answer as a string; its length, or -ENOENT and -ECONNREFUSED: no daemon;
   -ETIMEDOUT: there is none in time, and the daemon finds out that nobody waits for it; .... */
int control_ask(const char *name, enum control_verb verb, unsigned timeout_ms, char ret_reply[CONTROL_REPLY_MAX]);

#endif
