#include "blockdev/daemon/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int lines_open(struct lines *lines, const char *path)
{
	lines->at = lines->have = 0;
	lines->fd = open(path, O_RDONLY | O_CLOEXEC);
	return lines->fd < 0 ? -errno : 0;
}

void lines_close(struct lines *lines)
{
	if (lines->fd >= 0)
		close(lines->fd);
	lines->fd = -1;
}

static bool text_read(struct lines *lines)
{
	ssize_t got;

	do {
		got = read(lines->fd, lines->text, sizeof lines->text);
	} while (got < 0 && errno == EINTR);
	lines->at = 0;
	lines->have = got > 0 ? (size_t)got : 0;
	return got > 0;
}

bool lines_next(struct lines *lines, char ret_line[LINES_MAX])
{
	size_t length = 0;
	bool any = false;

	while (lines->fd >= 0 && (lines->at < lines->have || text_read(lines))) {
		char byte = lines->text[lines->at++];

		any = true;
		if (byte == '\n')
			break;
		if (length < LINES_MAX - 1)
			ret_line[length++] = byte;
	}
	ret_line[length] = '\0';
	return any;
}
