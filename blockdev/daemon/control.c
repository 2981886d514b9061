#include "blockdev/daemon/control.h"

#include "blockdev/daemon/runtime.h"
#include "common/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16

static const char *const words[] = {
    [CONTROL_STATUS] = "status",
    [CONTROL_DETACH] = "detach",
    [CONTROL_LEAVE] = "leave",
};
_Static_assert(sizeof words / sizeof words[0] == CONTROL_VERBS, "a word for each verb");

static int address_set(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof ret_address->sun_path)
		return -ENAMETOOLONG;
	strcpy(ret_address->sun_path, path);
	return 0;
}

int control_listen(const char *path, int *ret_socket)
{
	struct sockaddr_un address;
	int status = address_set(path, &address), fd;

	if (status < 0)
		return status;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(path); /* left by a daemon that has ended */
	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, BACKLOG) < 0) {
		status = -errno;
		close(fd);
		return status;
	}
	*ret_socket = fd;
	return 0;
}

int control_accept(int socket, int *ret_connection)
{
	int fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	*ret_connection = fd;
	return 0;
}

int control_receive(int connection, enum control_verb *ret_verb)
{
	char word[16];
	ssize_t length = recv(connection, word, sizeof word, 0);

	if (length < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	for (unsigned i = 0; i < CONTROL_VERBS; i++) {
		if ((size_t)length != strlen(words[i]) || memcmp(word, words[i], (size_t)length) != 0)
			continue;
		*ret_verb = (enum control_verb)i;
		return 0;
	}
	control_reply(connection, "error: the request must be status, detach or leave");
	return -EINVAL;
}

int control_reply(int connection, const char *text)
{
	/* MSG_DONTWAIT, because the caller may not read. */
	return send(connection, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

bool control_is_awaited(int connection)
{
	struct pollfd polled = {.fd = connection};

	return poll(&polled, 1, 0) == 0; /* POLLHUP and POLLERR are reported without being asked for */
}

/* Receives the answer. Repeats recv(2) after EINTR. A wait with a time limit ends with EINTR if the kernel has work for
   this thread, for example the end of an io_uring. */
static ssize_t answer_receive(int fd, uint64_t deadline, char ret_reply[CONTROL_REPLY_MAX])
{
	ssize_t length;

	do
		length = recv(fd, ret_reply, CONTROL_REPLY_MAX - 1, 0);
	while (length < 0 && errno == EINTR && clock_now() < deadline);
	if (length >= 0 || (errno != EAGAIN && errno != EINTR))
		return length;
	/* From here on, the daemon cannot send. An answer that the daemon sent just before can still be received. */
	shutdown(fd, SHUT_RD);
	length = recv(fd, ret_reply, CONTROL_REPLY_MAX - 1, MSG_DONTWAIT);
	if (length > 0)
		return length;
	errno = EAGAIN;
	return -1;
}

int control_ask(const char *name, enum control_verb verb, unsigned timeout_ms, char ret_reply[CONTROL_REPLY_MAX])
{
	const struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
	char path[RUNTIME_PATH_MAX + 16];
	struct sockaddr_un address;
	int status = runtime_path(name, "control", path), fd;
	uint64_t deadline = clock_now() + timeout_ms * UINT64_C(1000000);
	ssize_t length;

	if (!status)
		status = address_set(path, &address);
	if (status < 0)
		return status;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	length = connect(fd, (struct sockaddr *)&address, sizeof address);
	if (length == 0)
		length = send(fd, words[verb], strlen(words[verb]), MSG_NOSIGNAL);
	if (length > 0)
		length = answer_receive(fd, deadline, ret_reply);
	if (length < 0) {
		status = errno == EAGAIN ? -ETIMEDOUT : -errno;
		close(fd);
		return status;
	}
	close(fd);
	if (!length)
		return -ECONNRESET;
	ret_reply[length] = 0;
	return (int)length;
}
