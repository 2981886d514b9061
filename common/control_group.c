/* control_group: see control_group.h. */
#include "common/control_group.h"

#include "common/ascii.h"
#include "common/format.h"
#include "common/group_file.h"
#include "common/text_file.h"

#include <limits.h>
#include <string.h>

/* The names that each version uses: directory below the root, files, and words in memory.stat. In version 1, the file
   for the usage includes child groups, but in memory.stat only words that begin with "total_" include them. */
static const struct {
	const char *folder, *limit, *high, *usage, *swapped, *swapped_word, *inactive_word, *active_word;
} versions[CONTROL_GROUP_VERSIONS] = {
    [CONTROL_GROUP_V1] =
	{
	    .folder = "/memory",
	    .limit = "memory.limit_in_bytes",
	    .usage = "memory.usage_in_bytes",
	    .swapped_word = "total_swap",
	    .inactive_word = "total_inactive_file",
	    .active_word = "total_active_file",
	},
    [CONTROL_GROUP_V2] =
	{
	    .folder = "",
	    .limit = "memory.max",
	    .high = "memory.high",
	    .usage = "memory.current",
	    .swapped = "memory.swap.current",
	    .inactive_word = "inactive_file",
	    .active_word = "active_file",
	},
};

/* --- One group -------------------------------------------------------------------------------------------------- */

/* Returns the number in the line of @text that begins with @word and a space, or 0 if there is no such line. */
static uint64_t word_number(const char *text, const char *word)
{
	size_t length = word ? strlen(word) : 0;

	for (const char *line = text; word && line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, length) == 0 && line[length] == ' ') {
			const char *number = line + length + 1;

			return ascii_number(&number);
		}
	}
	return 0;
}

bool control_group_read(enum control_group_version version, const char *folder, struct control_group_memory *ret_memory)
{
	struct control_group_memory memory = {.limit = CONTROL_GROUP_NO_LIMIT, .high = CONTROL_GROUP_NO_LIMIT};
	char stat[8192];

	group_file_number(folder, versions[version].limit, "", &memory.limit);
	/* If there is no limit, version 1 reports the largest number of whole pages. */
	if (memory.limit >= (uint64_t)INT64_MAX / 2)
		memory.limit = CONTROL_GROUP_NO_LIMIT;
	if (versions[version].high)
		group_file_number(folder, versions[version].high, "", &memory.high);
	if (memory.limit == CONTROL_GROUP_NO_LIMIT && memory.high == CONTROL_GROUP_NO_LIMIT)
		return false;
	group_file_number(folder, versions[version].usage, "", &memory.usage);
	if (versions[version].swapped)
		group_file_number(folder, versions[version].swapped, "", &memory.swapped);
	if (group_file_read(folder, "memory.stat", stat, sizeof stat) >= 0) {
		if (versions[version].swapped_word)
			memory.swapped = word_number(stat, versions[version].swapped_word);
		memory.inactive = word_number(stat, versions[version].inactive_word);
		memory.active = word_number(stat, versions[version].active_word);
	}
	*ret_memory = memory;
	return true;
}

uint64_t control_group_easy(const struct control_group_memory *memory)
{
	return memory->limit < memory->high ? memory->limit : memory->high;
}

uint64_t control_group_left(const struct control_group_memory *memory, uint64_t of)
{
	uint64_t used = memory->usage - (memory->inactive < memory->usage ? memory->inactive : memory->usage);

	if (of == CONTROL_GROUP_NO_LIMIT)
		return of;
	return used < of ? of - used : 0;
}

bool control_group_swaps(const char *folder)
{
	char path[PATH_MAX], text[64];

	if (text_file_read("/proc/sys/vm/swappiness", text, sizeof text) > 0 && strcmp(text, "0\n") == 0)
		return false;
	format_text(path, sizeof path, "%s", folder);
	for (char *slash; strlen(path) > strlen(CONTROL_GROUP_ROOT); *slash = '\0') {
		if (group_file_read(path, "memory.swap.max", text, sizeof text) > 0 && strcmp(text, "0\n") == 0)
			return false;
		slash = strrchr(path, '/');
	}
	return true;
}

/* --- The groups of this process ----------------------------------------------------------------------------------- */

static void line_of_groups(const char *root, enum control_group_version version, char *path, control_group_look look,
			   void *user)
{
	char folder[PATH_MAX];

	for (;;) {
		char *slash = strrchr(path, '/');
		struct control_group_memory memory;

		if (format_text(folder, sizeof folder, "%s%s%s", root, versions[version].folder, path) <
			sizeof folder &&
		    control_group_read(version, folder, &memory))
			look(&memory, user);
		if (!slash || !*path)
			return;
		*slash = '\0';
	}
}

/* Returns true if @id and @controllers, from a line of /proc/PID/cgroup, name the memory hierarchy of this version.
   Changes @controllers. */
static bool is_memory(enum control_group_version version, const char *id, char *controllers)
{
	char *rest;

	if (version == CONTROL_GROUP_V2)
		return !strcmp(id, "0") && !*controllers;
	for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, "memory"))
			return true;
	return false;
}

bool control_group_path(const char *process, enum control_group_version version, char ret_path[PATH_MAX])
{
	char path[PATH_MAX], text[8192], *rest;

	format_text(path, sizeof path, "%s/cgroup", process);
	if (text_file_read(path, text, sizeof text) < 0)
		return false;
	/* Each line of the text is "ID:CONTROLLERS:PATH". */
	for (char *id = strtok_r(text, "\n", &rest); id; id = strtok_r(NULL, "\n", &rest)) {
		char *controllers = strchr(id, ':'), *own = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!own)
			continue;
		*controllers++ = '\0';
		*own++ = '\0';
		if (is_memory(version, id, controllers))
			return format_text(ret_path, PATH_MAX, "%s", strcmp(own, "/") ? own : "") < PATH_MAX;
	}
	return false;
}

bool control_group_own_path(const char *proc, enum control_group_version version, char ret_path[PATH_MAX])
{
	char process[PATH_MAX];

	format_text(process, sizeof process, "%s/self", proc);
	return control_group_path(process, version, ret_path);
}

void control_groups_own(const char *proc, const char *root, control_group_look look, void *user)
{
	char path[PATH_MAX];

	for (unsigned i = 0; i < CONTROL_GROUP_VERSIONS; i++)
		if (control_group_own_path(proc, (enum control_group_version)i, path))
			line_of_groups(root, (enum control_group_version)i, path, look, user);
}
