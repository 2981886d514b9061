/* helper_call: see helper_call.h. */
#include "cli/helper/helper_call.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool helper_call_possible(void)
{
	char path[PATH_MAX];

	helper_message_path("socket", path);
	return access(path, R_OK | W_OK) == 0;
}

int helper_call_open(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		return fd;
	log_error("cannot make a socket: %m");
	return -errno;
}

static ssize_t receive(int socket, void *ret_message, size_t size)
{
	ssize_t length;

	while ((length = recv(socket, ret_message, size, 0)) < 0 && errno == EINTR)
		;
	return length;
}

int helper_call_ask(int socket, uint64_t local, uint64_t swap, struct helper_answer *ret_answer)
{
	const struct helper_request request = {.version = HELPER_VERSION, .local = local, .swap = swap};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct helper_answer answer;
	char path[PATH_MAX];

	helper_message_path("socket", path);
	if (strlen(path) >= sizeof address.sun_path) {
		log_error("the path of the helper's socket is too long: %s", path);
		return -ENAMETOOLONG;
	}
	memcpy(address.sun_path, path, strlen(path));
	if (connect(socket, (const struct sockaddr *)&address, sizeof address)) {
		log_error("cannot connect %s: %m; is farpage-helper.socket enabled?", path);
		return -errno;
	}
	/* A helper that refuses the request may have closed the connection already, but its answer can
	   still be read. */
	send(socket, &request, sizeof request, MSG_NOSIGNAL);
	if (receive(socket, &answer, sizeof answer) != (ssize_t)sizeof answer || answer.version != HELPER_VERSION) {
		log_error("the helper gave no answer: ask the administrator for the log of farpage-helper@.service");
		return -EPROTO;
	}
	answer.text[sizeof answer.text - 1] = '\0';
	answer.group[sizeof answer.group - 1] = '\0';
	answer.device[sizeof answer.device - 1] = '\0';
	if (answer.status) {
		log_error("the helper refuses swap space: %s", answer.text);
		return -EPERM;
	}
	*ret_answer = answer;
	return 0;
}

void helper_call_end(int socket, bool answered)
{
	char removal;

	shutdown(socket, SHUT_WR);
	ssize_t length = receive(socket, &removal, sizeof removal);
	if (length > 0 && removal == HELPER_REMAINS)
		log_warning(
		    "the device holds pages of other programs, which have no room in memory; the helper removes "
		    "it later, and until then it counts for you");
	if (length <= 0 && answered)
		log_error("the helper was ended, and the command with it: ask the administrator for its log");
	close(socket);
}
