#include "pager/pass.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>

int pass_send(int socket, enum pass what, const struct pass_message *message)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof message->fd)] = {0};
	char kind = (char)what;
	struct iovec parts[] = {{&kind, 1}, {(void *)(uintptr_t)message->words, message->count * sizeof(uint64_t)}};
	struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

	if (message->fd >= 0) {
		header.msg_control = control;
		header.msg_controllen = sizeof control;
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		*rights = (struct cmsghdr){
		    .cmsg_len = CMSG_LEN(sizeof message->fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(rights), &message->fd, sizeof message->fd);
	}
	while ((sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	return sent < 0 ? -errno : 0;
}

int pass_receive(int socket, struct pass_message *ret_message)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char kind = 0;
	struct iovec parts[] = {{&kind, 1}, {ret_message->words, sizeof ret_message->words}};
	struct msghdr header = {
	    .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t got;

	ret_message->fd = -1;
	ret_message->count = 0;
	while ((got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	if (got <= 0)
		return got < 0 ? -errno : 0;
	ret_message->count = (unsigned)((size_t)(got - 1) / sizeof(uint64_t));
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
		memcpy(&ret_message->fd, CMSG_DATA(rights), sizeof ret_message->fd);
	return kind;
}
