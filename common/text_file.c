/* text_file: see text_file.h. */
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

ssize_t text_file_read(const char *path, char *ret_text, size_t size)
{
	/* With O_NONBLOCK, opening a FIFO without a writer does not block. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t got = 0, have = fd < 0 ? -errno : 0;

	while (have >= 0 && (size_t)have < size - 1) {
		got = read(fd, ret_text + have, size - 1 - (size_t)have);
		if (got == 0)
			break;
		if (got > 0)
			have += got;
		else if (errno != EINTR)
			have = -errno;
	}
	ret_text[have > 0 ? have : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return have;
}

int text_file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), status = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		status = -errno;
	close(fd);
	return status;
}
