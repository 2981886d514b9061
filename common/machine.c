/* machine: see machine.h. */
#include "common/machine.h"

#include "common/ascii.h"
#include "common/control_group.h"
#include "common/format.h"
#include "common/text_file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Reads the number that follows @name at the beginning of a line. Returns 0 or -EPROTO. */
static int field_read(const char *text, const char *name, const char **ret_end, uint64_t *ret_number)
{
	const char *at = text;

	while ((at = strstr(at, name)) && at != text && at[-1] != '\n')
		at++;
	if (!at)
		return -EPROTO;
	at += strlen(name);
	at += strspn(at, " ");
	*ret_end = at;
	*ret_number = ascii_number(ret_end);
	return *ret_end == at || *ret_number == UINT64_MAX ? -EPROTO : 0;
}

static int kilobytes_read(const char *text, const char *name, uint64_t *ret_bytes)
{
	uint64_t kilobytes;
	const char *end;

	if (field_read(text, name, &end, &kilobytes) < 0 || strncmp(end, " kB", 3) || kilobytes > UINT64_MAX / 1024)
		return -EPROTO;
	*ret_bytes = kilobytes * 1024;
	return 0;
}

int machine_memory_parse(const char *text, struct machine_memory *ret_memory)
{
	struct machine_memory memory;

	if (kilobytes_read(text, "MemTotal:", &memory.total) < 0 ||
	    kilobytes_read(text, "MemAvailable:", &memory.available) < 0)
		return -EPROTO;
	*ret_memory = memory;
	return 0;
}

static void group_look(const struct control_group_memory *group, void *user)
{
	struct machine_memory *memory = user;
	/* Above memory.high, the kernel slows down tasks that allocate. A donor must give memory back before this
	   happens. */
	uint64_t easy = control_group_easy(group), left = control_group_left(group, easy);

	if (easy < memory->total)
		memory->total = easy;
	if (left < memory->available)
		memory->available = left;
}

int machine_memory_read_at(const char *proc, const char *cgroup, struct machine_memory *ret_memory)
{
	char path[PATH_MAX], text[8192];
	struct machine_memory memory;
	int status;

	format_text(path, sizeof path, "%s/meminfo", proc);
	status = (int)text_file_read(path, text, sizeof text);
	if (status >= 0)
		status = machine_memory_parse(text, &memory);
	if (status < 0)
		return status;
	control_groups_own(proc, cgroup, group_look, &memory);
	*ret_memory = memory;
	return 0;
}

int machine_memory_read(struct machine_memory *ret_memory)
{
	return machine_memory_read_at("/proc", CONTROL_GROUP_ROOT, ret_memory);
}
