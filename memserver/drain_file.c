/* drain_file: see drain_file.h. */
#include "memserver/drain_file.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder_check(const char *path)
{
	char copy[PATH_MAX];
	const char *folder;

	if (strlen(path) >= sizeof copy)
		return -ENAMETOOLONG;
	memcpy(copy, path, strlen(path) + 1);
	folder = dirname(copy);
	return access(folder, W_OK | X_OK) < 0 ? -errno : 0;
}

/* The beginning of the text that file_make() writes. */
static const char made_by[] = "drained by ";

/* Returns true if the file may be removed, because it is empty or file_make() wrote it. */
static bool file_is_ours(const char *path)
{
	char text[sizeof made_by] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return !length || (length > 0 && strcmp(text, made_by) == 0);
}

int drain_file_read(const char *path, bool *ret_drained)
{
	struct stat status;
	bool there = stat(path, &status) == 0;
	int error = there || errno == ENOENT ? folder_check(path) : -errno;

	if (there && !S_ISREG(status.st_mode)) {
		log_error(
		    "--drain-file %s: not a file; give the name of a file that exists only while this donor is drained",
		    path);
		return -EINVAL;
	}
	if (there && !file_is_ours(path)) {
		log_error("--drain-file %s: is another file, and would be removed; give the name of a file that exists "
			  "only while this donor is drained",
			  path);
		return -EEXIST;
	}
	if (error < 0) {
		log_error("--drain-file %s: %s; make its folder, writable for the user that this runs as", path,
			  strerror(-error));
		return error;
	}
	*ret_drained = there;
	return 0;
}

static int file_make(const char *path, const char *from)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return -errno;
	/* The file's existence is what counts, not its text. */
	if (dprintf(fd, "%s%s: `farpage donors undrain` removes this file\n", made_by, from) < 0)
		log_warning("%s: %s; it stays empty", path, strerror(errno));
	close(fd);
	return 0;
}

void drain_file_write(const char *path, bool drained, const char *from)
{
	int error = 0;

	if (!path)
		return;
	if (drained)
		error = file_make(path, from);
	else if (unlink(path) < 0 && errno != ENOENT)
		error = -errno;
	if (error < 0)
		log_error("cannot %s %s: %s; when this donor is started again it %s", drained ? "make" : "remove", path,
			  strerror(-error), drained ? "lends again" : "is drained again");
}
