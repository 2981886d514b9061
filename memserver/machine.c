/*
 * machine: see machine.h.
 *
 * A group's room is its limit, less what it uses, plus the page cache it would give up first (inactive_file), which
 * is how the kernel estimates MemAvailable. Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
 */
#include "memserver/machine.h"

#include "common/text_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the two versions of control groups call things. */
struct group_names {
	const char *folder; /* below /sys/fs/cgroup */
	const char *limit, *usage, *cache;
};
static const struct group_names version_2 = {"", "memory.max", "memory.current", "inactive_file "};
static const struct group_names version_1 = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
					     "total_inactive_file "};

/* The number after @name at the beginning of a line. */
static int field_read(const char *text, const char *name, char **ret_end, uint64_t *ret_number)
{
	const char *at = text;
	unsigned long long number;
	char *end;

	while ((at = strstr(at, name)) && at != text && at[-1] != '\n')
		at++;
	if (!at)
		return -EPROTO;
	at += strlen(name);
	errno = 0;
	number = strtoull(at, &end, 10);
	if (errno || end == at)
		return -EPROTO;
	*ret_end = end;
	*ret_number = number;
	return 0;
}

static int kilobytes_read(const char *text, const char *name, uint64_t *ret_bytes)
{
	uint64_t kilobytes;
	char *end;

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

static int number_read(const char *folder, const char *name, uint64_t *ret_number)
{
	char path[PATH_MAX], text[64], *end;

	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
	    text_file_read(path, text, sizeof text) < 0)
		return -ENOENT;
	return field_read(text, "", &end, ret_number); /* "max" is no number, and no limit */
}

/* Takes what one group allows into account. */
static void group_apply(const char *folder, const struct group_names *names, struct machine_memory *memory)
{
	char path[PATH_MAX], text[8192], *end;
	uint64_t limit, usage, cache = 0, room;

	if (number_read(folder, names->limit, &limit) < 0 || limit >= memory->total ||
	    number_read(folder, names->usage, &usage) < 0)
		return;
	if (snprintf(path, sizeof path, "%s/memory.stat", folder) < (int)sizeof path &&
	    text_file_read(path, text, sizeof text) >= 0)
		field_read(text, names->cache, &end, &cache);
	if (cache > usage)
		cache = usage;
	room = limit > usage - cache ? limit - (usage - cache) : 0;
	memory->total = limit;
	if (room < memory->available)
		memory->available = room;
}

/* The group at @path and all above it. */
static void groups_apply(const char *root, const struct group_names *names, char *path, struct machine_memory *memory)
{
	char folder[PATH_MAX];

	for (;;) {
		char *slash = strrchr(path, '/');

		if (snprintf(folder, sizeof folder, "%s%s%s", root, names->folder, path) < (int)sizeof folder)
			group_apply(folder, names, memory);
		if (!slash || !*path)
			break;
		*slash = '\0';
	}
}

/* @line: "ID:CONTROLLERS:PATH", changed by this. */
static void membership_apply(const char *root, char *line, struct machine_memory *memory)
{
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return;
	*controllers++ = '\0';
	*path++ = '\0';
	if (!strcmp(line, "0") && !*controllers)
		groups_apply(root, &version_2, path, memory);
	for (char *rest, *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, "memory"))
			groups_apply(root, &version_1, path, memory);
}

int machine_memory_read_at(const char *proc, const char *cgroup, struct machine_memory *ret_memory)
{
	char path[PATH_MAX], text[8192], *rest;
	struct machine_memory memory;
	int status;

	snprintf(path, sizeof path, "%s/meminfo", proc);
	status = (int)text_file_read(path, text, sizeof text);
	if (status >= 0)
		status = machine_memory_parse(text, &memory);
	if (status < 0)
		return status;
	snprintf(path, sizeof path, "%s/self/cgroup", proc);
	if (text_file_read(path, text, sizeof text) >= 0)
		for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
			membership_apply(cgroup, line, &memory);
	*ret_memory = memory;
	return 0;
}

int machine_memory_read(struct machine_memory *ret_memory)
{
	return machine_memory_read_at("/proc", "/sys/fs/cgroup", ret_memory);
}
