#include "pager/pass.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>

int pass_send(int socket, enum pass what, int fd)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
	char byte = (char)what;
	struct iovec bytes = {&byte, 1};
	struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
	ssize_t sent;

	if (fd >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof control;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){
		    .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
	}
	while ((sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	return sent < 0 ? -errno : 0;
}

int pass_receive(int socket, int *ret_fd)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char byte = 0;
	struct iovec bytes = {&byte, 1};
	struct msghdr message = {
	    .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t got;

	*ret_fd = -1;
	while ((got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	if (got <= 0)
		return got < 0 ? -errno : 0;
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof *ret_fd);
	return byte;
}
