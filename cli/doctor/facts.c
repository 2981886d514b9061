/* facts: see facts.h. */
#include "cli/doctor/facts.h"

#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

int facts_number(const char *path, uint64_t *ret_number)
{
	char text[64], *end;
	int error = facts_text(path, text, sizeof text);
	unsigned long long number;

	if (error)
		return error;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

int facts_field(const char *path, const char *name, uint64_t *ret_number)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	char line[256];
	int error = -ENOENT;

	if (!file)
		return -errno;
	while (error && fgets(line, sizeof line, file)) {
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		*ret_number = strtoull(line + length + 1, NULL, 10);
		error = 0;
	}
	fclose(file);
	return error;
}

int facts_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

bool facts_capable(unsigned capability)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long effective = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof line, file))
		if (strncmp(line, "CapEff:", 7) == 0)
			effective = strtoull(line + 7, NULL, 16);
	fclose(file);
	return effective >> capability & 1;
}
