/* run_group: see run_group.h. */
#include "cli/run_group.h"

#include "common/log.h"
#include "common/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define V1_ROOT CONTROL_GROUP_ROOT "/memory"
#define TEXT_SIZE 8192
#define PAUSE_NS 5000000
#define KILL_TRIES 2000   /* ten seconds of such pauses: a process may wait for a device that does not answer */
#define REMOVE_TRIES 1000 /* five */
/* Version 2: the part of the budget between the size at which the group is slowed down and its limit. */
#define HIGH_PART 16
/* Version 1: the kernel lets some pages in beyond the limit (240 KiB beyond 16 MiB were seen). They are in the budget.
 */
#define BEYOND_PART 32
#define BEYOND_MAX (UINT64_C(8) << 20)
#define SWAPPINESS 60

static int file_path(const char *folder, const char *file, char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/%s", folder, file) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static ssize_t file_read(const char *folder, const char *file, char *ret_text, size_t size)
{
	char path[PATH_MAX];
	int status = file_path(folder, file, path);
	return status ? status : text_file_read(path, ret_text, size);
}

static int file_write(const char *folder, const char *file, const char *text)
{
	char path[PATH_MAX];
	int status = file_path(folder, file, path);
	return status ? status : text_file_write(path, text);
}

static int number_write(const char *folder, const char *file, uint64_t number)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	return file_write(folder, file, text);
}

/* The number in @file, or the one after @word in it; 0 if there is none. */
static uint64_t number_read(const char *folder, const char *file, const char *word)
{
	char text[TEXT_SIZE];
	const char *at = text;
	if (file_read(folder, file, text, sizeof text) < 0)
		return 0;
	if (word)
		at = strstr(text, word);
	return at ? strtoull(at + (word ? strlen(word) : 0), NULL, 10) : 0;
}

/* --- Where ------------------------------------------------------------------------------------------------------ */

/* The path of this process's group in the hierarchy whose line of /proc/self/cgroup has @controllers. */
static bool own_path(const char *controllers, char ret_path[PATH_MAX])
{
	char text[TEXT_SIZE], *rest;
	if (text_file_read("/proc/self/cgroup", text, sizeof text) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (strcmp(names + 1, controllers) == 0)
			return snprintf(ret_path, PATH_MAX, "%s", strcmp(path, "/") ? path : "") < PATH_MAX;
	}
	return false;
}

static bool is_writable(const char *folder)
{
	return access(folder, W_OK) == 0;
}

static bool passes_memory_on(const char *folder)
{
	char text[TEXT_SIZE];
	return file_read(folder, "cgroup.subtree_control", text, sizeof text) >= 0 && strstr(text, "memory");
}

/* The root of all groups has no type; the root of a container's has one. */
static bool is_real_root(const char *folder)
{
	char path[PATH_MAX];
	return file_path(folder, "cgroup.type", path) == 0 && access(path, F_OK) < 0;
}

/* Version 2: the nearest group, from this process's upwards, below which a group can have a limit. */
static bool place_v2(char ret_folder[PATH_MAX])
{
	char path[PATH_MAX], text[TEXT_SIZE];
	if (file_read(CONTROL_GROUP_ROOT, "cgroup.controllers", text, sizeof text) < 0 || !strstr(text, "memory") ||
	    !own_path("", path))
		return false;
	for (;;) {
		char *slash = strrchr(path, '/');
		if (snprintf(ret_folder, PATH_MAX, "%s%s", CONTROL_GROUP_ROOT, path) < PATH_MAX &&
		    is_writable(ret_folder) && (passes_memory_on(ret_folder) || (!*path && is_real_root(ret_folder))))
			return true;
		if (!slash)
			return false;
		*slash = '\0';
	}
}

static bool place_v1(char ret_folder[PATH_MAX])
{
	char path[PATH_MAX];
	if (access(V1_ROOT "/cgroup.procs", F_OK) < 0 || !own_path("memory", path))
		return false;
	/* In a container the path may be the host's; the root's files are those of the own group then. */
	if (snprintf(ret_folder, PATH_MAX, "%s%s", V1_ROOT, path) >= PATH_MAX || access(ret_folder, F_OK) < 0)
		snprintf(ret_folder, PATH_MAX, "%s", V1_ROOT);
	return is_writable(ret_folder);
}

/* Version 2: whether the kernel swaps a group below @folder at all. Version 1 has a swappiness for each group. */
static bool swaps_below(const char *folder)
{
	char path[PATH_MAX], text[TEXT_SIZE];
	if (text_file_read("/proc/sys/vm/swappiness", text, sizeof text) > 0 && strtol(text, NULL, 10) == 0)
		return false;
	snprintf(path, sizeof path, "%s", folder);
	for (char *slash; strlen(path) > strlen(CONTROL_GROUP_ROOT); *slash = '\0') {
		if (file_read(path, "memory.swap.max", text, sizeof text) > 0 && strcmp(text, "0\n") == 0)
			return false;
		slash = strrchr(path, '/');
	}
	return true;
}

int run_group_place(const char *name, struct run_group *ret_group, char ret_why[RUN_GROUP_WHY_MAX])
{
	struct run_group group;
	char folder[PATH_MAX];
	if (place_v2(folder)) {
		group.version = CONTROL_GROUP_V2;
		if (!swaps_below(folder)) {
			snprintf(ret_why, RUN_GROUP_WHY_MAX,
				 "vm.swappiness above 0, and no memory.swap.max of 0 on the way to its control group");
			return -EOPNOTSUPP;
		}
	} else if (place_v1(folder)) {
		group.version = CONTROL_GROUP_V1;
	} else {
		snprintf(ret_why, RUN_GROUP_WHY_MAX,
			 "a control group with a memory limit: %s has no memory controller that may be written to",
			 CONTROL_GROUP_ROOT);
		return -EOPNOTSUPP;
	}
	if (snprintf(group.folder, sizeof group.folder, "%s/farpage-%s", folder, name) >= (int)sizeof group.folder)
		return -ENAMETOOLONG;
	*ret_group = group;
	return 0;
}

/* --- The group -------------------------------------------------------------------------------------------------- */

static int limit_v2(const struct run_group *group, uint64_t local)
{
	char path[PATH_MAX];
	int status = file_path(group->folder, "memory.max", path);
	/* The root does not pass its memory controller on yet. */
	if (!status && access(path, F_OK) < 0)
		file_write(CONTROL_GROUP_ROOT, "cgroup.subtree_control", "+memory");
	if (!status)
		status = number_write(group->folder, "memory.high", local - local / HIGH_PART);
	return status ? status : number_write(group->folder, "memory.max", local);
}

static int limit_v1(const struct run_group *group, uint64_t local)
{
	uint64_t beyond = local / BEYOND_PART;
	if (beyond > BEYOND_MAX)
		beyond = BEYOND_MAX;
	number_write(group->folder, "memory.swappiness", SWAPPINESS); /* with 0 nothing would be swapped */
	return number_write(group->folder, "memory.limit_in_bytes", local - beyond);
}

int run_group_make(const struct run_group *group, uint64_t local)
{
	if (mkdir(group->folder, 0755) < 0) {
		int error = -errno;
		log_error("cannot make the control group %s: %s", group->folder, strerror(-error));
		return error;
	}
	int status = group->version == CONTROL_GROUP_V2 ? limit_v2(group, local) : limit_v1(group, local);
	if (!status)
		return 0;
	log_error("cannot limit the memory of the control group %s: %s", group->folder, strerror(-status));
	rmdir(group->folder);
	return status;
}

int run_group_enter(const struct run_group *group)
{
	return file_write(group->folder, "cgroup.procs", "0");
}

void run_group_look(const struct run_group *group, struct run_group_use *use)
{
	struct control_group_memory memory;
	if (!control_group_read(group->version, group->folder, &memory))
		return;
	if (memory.usage > use->peak_bytes)
		use->peak_bytes = memory.usage;
	if (memory.swapped > use->swapped_peak)
		use->swapped_peak = memory.swapped;
}

void run_group_sum(const struct run_group *group, struct run_group_use *use)
{
	bool v2 = group->version == CONTROL_GROUP_V2;
	char path[PATH_MAX], text[TEXT_SIZE];
	uint64_t peak = number_read(group->folder, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
	uint64_t swapped = v2 ? number_read(group->folder, "memory.swap.peak", NULL) : 0; /* from Linux 6.5 on */
	run_group_look(group, use);
	if (peak > use->peak_bytes)
		use->peak_bytes = peak;
	if (swapped > use->swapped_peak)
		use->swapped_peak = swapped;
	use->killed =
	    number_read(group->folder, v2 ? "memory.events" : "memory.oom_control", v2 ? "\noom_kill " : "oom_kill ");
	/* The kernel may count no pressure (psi=0). */
	bool counted =
	    v2 && file_path(group->folder, "memory.pressure", path) == 0 && text_file_read(path, text, sizeof text) > 0;
	use->stalled_us = counted ? number_read(group->folder, "memory.pressure", "total=") : UINT64_MAX;
}

/* Whether all threads of a process have ended. It stays listed until it is waited for. */
static bool has_ended(pid_t pid)
{
	char path[64], text[512], state;
	long threads;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	if (text_file_read(path, text, sizeof text) < 0)
		return true;
	const char *behind_name = strrchr(text, ')');
	if (!behind_name ||
	    sscanf(behind_name, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &state,
		   &threads) != 2)
		return true;
	return (state == 'Z' || state == 'X') && threads <= 1;
}

/* Calls @act for each process of the one group that has not ended; how many there are. */
static unsigned for_each_here(const char *folder, void (*act)(pid_t pid))
{
	char path[PATH_MAX];
	unsigned count = 0;
	int pid;
	FILE *file = file_path(folder, "cgroup.procs", path) ? NULL : fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1) {
		if (pid <= 0 || has_ended(pid))
			continue;
		count++;
		if (act)
			act(pid);
	}
	if (file)
		fclose(file);
	return count;
}

/* The same for the group and those below it, which the command may have made; @removing: removes these, the lowest
   first. */
static unsigned for_each(const char *folder, void (*act)(pid_t pid), bool removing)
{
	char path[PATH_MAX];
	unsigned count = for_each_here(folder, act);
	DIR *directory = opendir(folder);
	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || file_path(folder, entry->d_name, path))
			continue;
		count += for_each(path, act, removing);
		if (removing)
			rmdir(path);
	}
	if (directory)
		closedir(directory);
	return count;
}

unsigned run_group_count(const struct run_group *group)
{
	return for_each(group->folder, NULL, false);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
}

void run_group_kill(const struct run_group *group)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	for (unsigned i = 0; i < KILL_TRIES && for_each(group->folder, end, false); i++)
		nanosleep(&pause, NULL);
}

int run_group_remove(const struct run_group *group)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int status = -1;
	/* A process leaves its group a moment after it has ended. */
	for (unsigned i = 0; i < REMOVE_TRIES; i++) {
		for_each(group->folder, NULL, true);
		status = rmdir(group->folder);
		if (status == 0 || errno != EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	if (status == 0 || errno == ENOENT)
		return 0;
	log_error("cannot remove the control group %s: %m; run: find %s -depth -type d -exec rmdir {} +", group->folder,
		  group->folder);
	return -EBUSY;
}
