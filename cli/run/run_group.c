/* run_group: see run_group.h. */
#include "cli/run/run_group.h"

#include "common/group_file.h"
#include "common/log.h"
#include "common/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define V1_ROOT CONTROL_GROUP_ROOT "/memory"
#define TEXT_SIZE 8192
#define PAUSE_NS 5000000
#define KILL_TRIES 2000   /* ten seconds, because a process may wait for a device that does not answer */
#define REMOVE_TRIES 1000 /* five seconds */
/* Version 2: memory.high is 1/HIGH_PART of the budget below the limit. */
#define HIGH_PART 16
/* Version 1: the kernel allows some pages beyond the limit (240 KiB beyond 16 MiB were seen). So 1/BEYOND_PART of the
   budget, at most BEYOND_MAX, is reserved for such pages. */
#define BEYOND_PART 32
#define BEYOND_MAX (UINT64_C(8) << 20)
#define SWAPPINESS 60
/* Version 1: the killer is enabled after this number of tries in vain, with less than a second between two tries. */
#define STARVED_MAX 50
#define CALM_LOOKS (1000 / RUN_GROUP_LOOK_MS)
#define PAGE 4096

/* Returns the number after @word in @file, or @none if there is none. @word may be empty. */
static uint64_t number_read(const char *folder, const char *file, const char *word, uint64_t none)
{
	group_file_number(folder, file, word, &none);
	return none;
}

/* --- Where ------------------------------------------------------------------------------------------------------ */

static bool is_writable(const char *folder)
{
	return access(folder, W_OK) == 0;
}

static bool passes_memory_on(const char *folder)
{
	char text[TEXT_SIZE];

	return group_file_read(folder, "cgroup.subtree_control", text, sizeof text) >= 0 && strstr(text, "memory");
}

/* Returns true if @folder is the root of all groups, which has no file cgroup.type. The root of a container has one. */
static bool is_real_root(const char *folder)
{
	char path[PATH_MAX];

	return group_file_path(folder, "cgroup.type", path) == 0 && access(path, F_OK) < 0;
}

/* Returns true if only root can change @folder and the groups above it. */
static bool is_roots(const char *folder)
{
	char path[PATH_MAX];
	struct stat status;

	snprintf(path, sizeof path, "%s", folder);
	while (stat(path, &status) == 0 && status.st_uid == 0 && !(status.st_mode & (S_IWGRP | S_IWOTH))) {
		if (strlen(path) <= strlen(CONTROL_GROUP_ROOT))
			return true;
		*strrchr(path, '/') = '\0';
	}
	return false;
}

/* Finds the path of the group of the process @pid, or of this process if @pid is 0. A path outside the visible groups
   begins with "/..", and is not found. */
static bool path_find(pid_t pid, enum control_group_version version, char ret_path[PATH_MAX])
{
	char process[32] = "/proc/self";

	if (pid)
		snprintf(process, sizeof process, "/proc/%d", (int)pid);
	return control_group_path(process, version, ret_path) && !strstr(ret_path, "/../") &&
	       strcmp(ret_path, "/..") != 0;
}

/* Version 2: finds the nearest group, from the process's group upwards, whose children can have limits. Returns
   false if there is none. */
static bool place_v2(pid_t pid, char ret_folder[PATH_MAX])
{
	char path[PATH_MAX], text[TEXT_SIZE];

	if (group_file_read(CONTROL_GROUP_ROOT, "cgroup.controllers", text, sizeof text) < 0 ||
	    !strstr(text, "memory") || !path_find(pid, CONTROL_GROUP_V2, path))
		return false;
	for (;;) {
		char *slash = strrchr(path, '/');

		if (snprintf(ret_folder, PATH_MAX, "%s%s", CONTROL_GROUP_ROOT, path) < PATH_MAX &&
		    is_writable(ret_folder) && (!pid || is_roots(ret_folder)) &&
		    (passes_memory_on(ret_folder) || (!*path && is_real_root(ret_folder))))
			return true;
		if (!slash)
			return false;
		*slash = '\0';
	}
}

static bool place_v1(pid_t pid, char ret_folder[PATH_MAX])
{
	char path[PATH_MAX];

	if (access(V1_ROOT "/cgroup.procs", F_OK) < 0 || !path_find(pid, CONTROL_GROUP_V1, path))
		return false;
	/* In a container the path may be the group's path on the host, which does not exist here. Then the root
	   folder is this process's group. */
	if (snprintf(ret_folder, PATH_MAX, "%s%s", V1_ROOT, path) >= PATH_MAX || access(ret_folder, F_OK) < 0)
		snprintf(ret_folder, PATH_MAX, "%s", V1_ROOT);
	while (pid && !is_roots(ret_folder) && strlen(ret_folder) > strlen(V1_ROOT))
		*strrchr(ret_folder, '/') = '\0';
	return is_writable(ret_folder);
}

int run_group_place(const char *name, pid_t pid, struct run_group *ret_group, char ret_why[RUN_GROUP_WHY_MAX])
{
	struct run_group group = {.event = -1, .calm = 1};
	char folder[PATH_MAX];

	if (place_v2(pid, folder)) {
		group.version = CONTROL_GROUP_V2;
		if (!control_group_swaps(folder)) {
			snprintf(ret_why, RUN_GROUP_WHY_MAX,
				 "vm.swappiness above 0, and no memory.swap.max of 0 on the way to its control group");
			return -EOPNOTSUPP;
		}
	} else if (place_v1(pid, folder)) {
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

void run_group_attended(enum control_group_version version, const char *folder, struct run_group *ret_group)
{
	*ret_group = (struct run_group){.version = version, .event = -1, .is_attended = true};
	snprintf(ret_group->folder, sizeof ret_group->folder, "%s", folder);
}

/* --- The group -------------------------------------------------------------------------------------------------- */

static int limit_v2(const struct run_group *group, uint64_t local)
{
	char path[PATH_MAX];
	int status = group_file_path(group->folder, "memory.max", path);

	/* The root does not enable the memory controller for its children yet. */
	if (!status && access(path, F_OK) < 0)
		group_file_write(CONTROL_GROUP_ROOT, "cgroup.subtree_control", "+memory");
	if (!status)
		status = group_file_write_number(group->folder, "memory.high", local - local / HIGH_PART);
	return status ? status : group_file_write_number(group->folder, "memory.max", local);
}

/* Makes the kernel signal the eventfd @event at events of @file. @argument, such as a level of pressure, limits the
   events. */
static void event_want(const struct run_group *group, int event, const char *file, const char *argument)
{
	char path[PATH_MAX], text[64];
	int control = group_file_path(group->folder, file, path) ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	if (control < 0)
		return;
	snprintf(text, sizeof text, "%d %d%s", event, control, argument);
	group_file_write(group->folder, "cgroup.event_control", text);
	close(control);
}

/* Returns an eventfd, or -1. The kernel signals it when a task begins to sleep for lack of memory, and when it scans
   many pages but evicts almost none. */
static int event_open(const struct run_group *group)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (event >= 0) {
		event_want(group, event, "memory.oom_control", "");
		event_want(group, event, "memory.pressure_level", " critical");
	}
	return event;
}

/* Enables or disables the OOM killer of the group. While it is disabled, tasks that find no memory sleep. */
static void killer_set(struct run_group *group, bool kills)
{
	group->kills = kills;
	group_file_write_number(group->folder, "memory.oom_control", !kills);
}

static int limit_v1(struct run_group *group, uint64_t local)
{
	uint64_t beyond = local / BEYOND_PART;

	if (beyond > BEYOND_MAX)
		beyond = BEYOND_MAX;
	group->limit = local - beyond;
	group_file_write_number(group->folder, "memory.swappiness",
				SWAPPINESS); /* with 0 the kernel would swap nothing */
	killer_set(group, false);
	group->event = event_open(group);
	return group_file_write_number(group->folder, "memory.limit_in_bytes", group->limit);
}

int run_group_make(struct run_group *group, uint64_t local)
{
	if (mkdir(group->folder, 0755) < 0) {
		int error = -errno;

		log_error("cannot make the control group %s: %s", group->folder, strerror(-error));
		return error;
	}
	chmod(group->folder, 0755); /* its user may read it, whatever the umask is */
	int status = group->version == CONTROL_GROUP_V2 ? limit_v2(group, local) : limit_v1(group, local);
	if (!status)
		return 0;
	log_error("cannot limit the memory of the control group %s: %s", group->folder, strerror(-status));
	rmdir(group->folder);
	return status;
}

int run_group_enter(const struct run_group *group)
{
	return group_file_write(group->folder, "cgroup.procs", "0");
}

int run_group_move(const struct run_group *group, pid_t pid)
{
	return group_file_write_number(group->folder, "cgroup.procs", (uint64_t)pid);
}

static void use_read(const struct run_group *group, struct run_group_use *use)
{
	struct control_group_memory memory;

	if (!control_group_read(group->version, group->folder, &memory))
		return;
	use->bytes = memory.usage;
	use->swapped = memory.swapped;
	if (memory.usage > use->peak_bytes)
		use->peak_bytes = memory.usage;
	if (memory.swapped > use->swapped_peak)
		use->swapped_peak = memory.swapped;
}

/* Returns true if a task sleeps for lack of memory. */
static bool is_starving(const struct run_group *group)
{
	return !group->kills && number_read(group->folder, "memory.oom_control", "under_oom ", 0);
}

/* Wakes tasks that sleep for lack of memory, by raising the limit for a moment. Each try in a row raises the limit by
   one more page, because the try before may have failed to lower it again. */
static void wake(const struct run_group *group)
{
	group_file_write_number(group->folder, "memory.limit_in_bytes", group->limit + (1 + group->starved) * PAGE);
	group_file_write_number(group->folder, "memory.limit_in_bytes", group->limit);
}

/* Version 1: if tasks sleep for lack of memory, wakes them, or enables the killer after too many tries. @full means
   that swap space is nearly full, so that waking cannot help. */
static void relieve(struct run_group *group, bool full)
{
	bool starving = is_starving(group);

	group->calm = starving ? 0 : group->calm + 1;
	group->starved = group->calm < CALM_LOOKS ? group->starved + starving : 0;
	if (!group->kills && (full || group->starved > STARVED_MAX))
		killer_set(group, true);
	else if (starving)
		wake(group);
}

void run_group_look(struct run_group *group, uint64_t far, struct run_group_use *use)
{
	use_read(group, use);
	if (group->version == CONTROL_GROUP_V1 && !group->is_attended)
		relieve(group, use->swapped + group->limit >= far);
}

bool run_group_wait(const struct run_group *group, int fd, int timeout_ms, struct run_group_use *use)
{
	struct pollfd ready[] = {{.fd = fd, .events = POLLIN}, {.fd = group->event, .events = POLLIN}};
	uint64_t times;

	while (poll(ready, 2, timeout_ms) > 0 && !ready[0].revents) {
		if (read(group->event, &times, sizeof times) != (ssize_t)sizeof times)
			continue;
		use_read(group, use);
		/* If this does not help, the next run_group_look() tries again. */
		if (group->calm && is_starving(group))
			wake(group);
	}
	return ready[0].revents;
}

void run_group_sum(const struct run_group *group, struct run_group_use *use)
{
	bool v2 = group->version == CONTROL_GROUP_V2;
	uint64_t peak = number_read(group->folder, v2 ? "memory.peak" : "memory.max_usage_in_bytes", "", 0);
	uint64_t swapped = v2 ? number_read(group->folder, "memory.swap.peak", "", 0) : 0; /* since Linux 6.5 */

	use_read(group, use);
	if (peak > use->peak_bytes)
		use->peak_bytes = peak;
	if (swapped > use->swapped_peak)
		use->swapped_peak = swapped;
	use->killed = number_read(group->folder, v2 ? "memory.events" : "memory.oom_control",
				  v2 ? "\noom_kill " : "oom_kill ", 0);
	/* UINT64_MAX if the kernel does not count pressure (psi=0). */
	use->stalled_us = v2 ? number_read(group->folder, "memory.pressure", "total=", UINT64_MAX) : UINT64_MAX;
}

/* Calls @act, which may be NULL, for each process in @folder that has not ended. Returns the number of these
   processes. A process that has ended is in the list until its parent waits for it. */
static unsigned for_each_here(const char *folder, void (*act)(pid_t pid))
{
	char path[PATH_MAX];
	unsigned count = 0;
	int pid;
	FILE *file = group_file_path(folder, "cgroup.procs", path) ? NULL : fopen(path, "re");

	while (file && fscanf(file, "%d", &pid) == 1) {
		if (pid <= 0 || process_has_ended(pid))
			continue;
		count++;
		if (act)
			act(pid);
	}
	if (file)
		fclose(file);
	return count;
}

/* Calls for_each_here() for the group and the groups below it, which the command may have made. With @removing, also
   removes the groups below it, the lowest first. */
static unsigned for_each(const char *folder, void (*act)(pid_t pid), bool removing)
{
	char path[PATH_MAX];
	unsigned count = for_each_here(folder, act);
	DIR *directory = opendir(folder);

	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || group_file_path(folder, entry->d_name, path))
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

	group_file_write(group->folder, "cgroup.kill", "1"); /* version 2 since Linux 5.14: no fork escapes it */
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
