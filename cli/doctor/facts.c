/* facts: reads small facts from /proc and /sys. See internal.h. */
#include "cli/doctor/internal.h"
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int facts_text(const char *path, char *text, size_t size)
{
	ssize_t length = text_file_read(path, text, size);

	if (length > 0 && text[length - 1] == '\n')
		text[length - 1] = '\0';
	return length < 0 ? (int)length : 0;
}

int64_t facts_number(const char *path)
{
	char text[64], *end;
	int error = facts_text(path, text, sizeof text);
	long long number;

	if (error)
		return error;
	errno = 0;
	number = strtoll(text, &end, 10);
	return errno || end == text || *end || number < 0 ? -EINVAL : number;
}

bool facts_line(const char *path, const char *name, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(text, (int)size, file))
		found = strncmp(text, name, length) == 0 && strchr(":\t", text[length]);
	fclose(file);
	if (found)
		memmove(text, text + length, strlen(text + length) + 1);
	return found;
}

uint64_t facts_field(const char *path, const char *name, int base)
{
	char text[256];

	return facts_line(path, name, text, sizeof text) ? strtoull(text + strspn(text, ":\t "), NULL, base) : 0;
}

int facts_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

bool facts_release_is(const char *release, unsigned major, unsigned minor)
{
	unsigned its_major = 0, its_minor = 0;

	sscanf(release, "%u.%u", &its_major, &its_minor);
	return its_major > major || (its_major == major && its_minor >= minor);
}
