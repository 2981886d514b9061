/* machine: see machine.h. */
#include "memserver/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int field_read(const char *text, const char *name, uint64_t *ret_bytes)
{
	const char *at = strstr(text, name);
	char *end;
	unsigned long long kilobytes;

	if (!at || (at != text && at[-1] != '\n'))
		return -EPROTO;
	at += strlen(name);
	errno = 0;
	kilobytes = strtoull(at, &end, 10);
	if (errno || end == at || strncmp(end, " kB", 3) || kilobytes > UINT64_MAX / 1024)
		return -EPROTO;
	*ret_bytes = kilobytes * 1024;
	return 0;
}

int machine_memory_parse(const char *text, struct machine_memory *ret_memory)
{
	struct machine_memory memory;
	int status = field_read(text, "MemTotal:", &memory.total);

	if (!status)
		status = field_read(text, "MemAvailable:", &memory.available);
	if (!status)
		*ret_memory = memory;
	return status;
}

int machine_memory_read(struct machine_memory *ret_memory)
{
	char text[1024]; /* the two fields are among the first */
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (fd < 0)
		return -errno;
	size = read(fd, text, sizeof text - 1);
	if (size < 0)
		size = -errno;
	close(fd);
	if (size < 0)
		return (int)size;
	text[size] = '\0';
	return machine_memory_parse(text, ret_memory);
}
