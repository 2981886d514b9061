/*
 * control: requests to the daemon of a device. Each request is one message to the daemon's socket and one message back.
 *
 * Theory of operation. The socket (Unix, seqpacket) is in the device's folder, which only root can enter. A request is
 * one word. control_ask() (devices.h) sends it. The functions here are the daemon's.
 *
 * The keeper opens the socket. If a worker dies, the socket stays, so a request waits for the next worker. A caller
 * that gives up waiting accepts no answer from then on. So both sides agree if the caller got an answer.
 *
 * Threads. Any thread may call these functions. In the daemon, the main thread calls them. They do not allocate.
 */
#ifndef BLOCKDEV_CONTROL_H
#define BLOCKDEV_CONTROL_H

#include "blockdev/devices.h"

/* Creates a listening socket at @path, for the daemon. Returns 0 or -errno. */
int control_listen(const char *path, int *ret_socket);
/* Takes the next connection. Returns 0, -EAGAIN if there is none, or another -errno. */
int control_accept(int socket, int *ret_connection);
/*
 * Reads the request of a connection. Returns 0, -EAGAIN if the request has not come yet, -EINVAL if it is unknown (the
 * sender is told this), or another -errno.
 */
int control_receive(int connection, enum control_verb *ret_verb);
/* Sends the answer. Returns 0, or -errno if it cannot be delivered because the caller has given up. */
int control_reply(int connection, const char *text);
/* Returns true if the caller still waits for the answer. */
bool control_is_awaited(int connection);

#endif
