/*
 * control: requests to the daemon of a device. A request is one message to the daemon's socket, and the answer is
 * one message back.
 *
 * Theory of operation. The socket (Unix, seqpacket) is in the device's folder, which only root can enter. A request is
 * one word. control_ask() (devices.h) sends a request; the daemon calls the functions here.
 *
 * The keeper opens the socket. If a worker dies, the socket stays open, so a request waits for the next worker. When a
 * caller times out, it first closes its side for reading. From then on, the daemon cannot send an answer any more. So
 * both sides agree whether the caller got the answer.
 *
 * Threads. Any thread may call these functions; in the daemon, the main thread does. They do not allocate.
 */
#ifndef BLOCKDEV_CONTROL_H
#define BLOCKDEV_CONTROL_H

#include "blockdev/devices.h"

/* Creates a listening socket at @path, for the daemon. Returns 0 or -errno. */
int control_listen(const char *path, int *ret_socket);
/* Accepts a connection. Returns 0, -EAGAIN if there is none, or another -errno. */
int control_accept(int socket, int *ret_connection);
/* Reads the request of a connection. Returns 0, -EAGAIN if the request has not arrived yet, -EINVAL after answering an
   unknown word, or another -errno. */
int control_receive(int connection, enum control_verb *ret_verb);
/* Sends the answer. Returns 0, or -errno, for example if the caller has timed out. */
int control_reply(int connection, const char *text);
/* Returns true if the caller still waits for the answer. */
bool control_is_awaited(int connection);

#endif
