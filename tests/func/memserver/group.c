/* group: see group.h. */
#include "tests/func/memserver/group.h"

#include "tests/lib/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define V1 "/sys/fs/cgroup/memory"
#define V2 "/sys/fs/cgroup"

static bool group_write(const char *folder, const char *name, const char *text)
{
	char path[4400];
	int fd;
	bool good;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return good;
}

/* Returns the number after @field in a file of the group. If @field is empty, the file is just a number. */
static uint64_t number_read(const struct group *group, const char *name, const char *field)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", group->path, name);
	return text_number(path, field);
}

/* Finds the group that this process is in. Returns false if /proc does not tell. */
static bool home_find(struct group *group)
{
	char line[4096], *name = NULL;
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && !name && fgets(line, sizeof line, file)) {
		char *at = strstr(line, group->second ? "0::" : ":memory:");

		if (at && (!group->second || at == line))
			name = strrchr(line, ':') + 1;
	}
	if (file)
		fclose(file);
	if (!name)
		return false;
	name[strcspn(name, "\n")] = '\0';
	snprintf(group->home, sizeof group->home, "%s%s", group->second ? V2 : V1, name);
	return true;
}

const char *group_make(struct group *group, const char *name, uint64_t limit)
{
	char text[32];

	memset(group, 0, sizeof *group);
	group->limit = limit;
	group->second = access(V1 "/memory.limit_in_bytes", F_OK) != 0;
	if (group->second && access(V2 "/cgroup.controllers", F_OK) != 0)
		return "no control groups for memory under /sys/fs/cgroup";
	if (group->second)
		group_write(V2, "cgroup.subtree_control", "+memory");
	if (!home_find(group))
		return "/proc/self/cgroup does not tell where this is";
	snprintf(group->path, sizeof group->path, "%s/farpage-%s-%d", group->second ? V2 : V1, name, (int)getpid());
	if (mkdir(group->path, 0755) < 0)
		return "no right to make a control group";
	snprintf(text, sizeof text, "%llu", (unsigned long long)limit);
	if (group_write(group->path, group->second ? "memory.max" : "memory.limit_in_bytes", text))
		return NULL;
	rmdir(group->path);
	return "a control group here takes no memory limit";
}

void group_remove(struct group *group)
{
	/* Ended processes leave their group a little after their end. */
	for (int i = 0; i < 500 && rmdir(group->path) < 0 && errno == EBUSY; i++)
		usleep(10000);
}

static void process_move(const char *folder)
{
	char text[32];

	snprintf(text, sizeof text, "%d", (int)getpid());
	group_write(folder, "cgroup.procs", text);
}

void group_enter(const struct group *group)
{
	process_move(group->path);
}

void group_leave(const struct group *group)
{
	process_move(group->home);
}

uint64_t group_available(const struct group *group)
{
	uint64_t usage = number_read(group, group->second ? "memory.current" : "memory.usage_in_bytes", "");
	uint64_t cache = number_read(group, "memory.stat", group->second ? "inactive_file " : "total_inactive_file ");

	return usage - cache < group->limit ? group->limit - (usage - cache) : 0;
}

static void hog_be(const struct group *group, uint64_t bytes, int ready, int go)
{
	char *memory, byte = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	group_enter(group);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED || write(ready, &byte, 1) != 1)
		_exit(1);
	while (read(go, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

bool hog_start(struct hog *hog, const struct group *group, uint64_t bytes)
{
	int ready[2], go[2];
	char byte;
	bool good;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		abort();
	hog->pid = fork();
	if (hog->pid < 0)
		abort();
	if (!hog->pid) {
		close(ready[0]);
		close(go[1]);
		hog_be(group, bytes, ready[1], go[0]);
	}
	close(ready[1]);
	close(go[0]);
	hog->go = go[1];
	good = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return good;
}

void hog_end(struct hog *hog)
{
	close(hog->go);
	waitpid(hog->pid, NULL, 0);
	hog->pid = 0;
}

/* --- Stalls ---------------------------------------------------------------------------------------------- */

#define THRASH_BYTES ((size_t)64 << 20)
#define THRASH_LIMIT ((uint64_t)8 << 20)

static void thrasher_be(const struct thrash *thrash)
{
	static char buffer[1 << 16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	group_enter(&thrash->group);
	for (;;) {
		int fd = open(thrash->file, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			_exit(1);
		while (read(fd, buffer, sizeof buffer) > 0)
			;
		close(fd);
	}
}

/* Writes the file. A child does this, because the pages are charged to the group of the process that writes. */
static bool file_make(struct thrash *thrash)
{
	static const char page[4096] = {1};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd = open(thrash->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		group_enter(&thrash->group);
		for (size_t i = 0; fd >= 0 && i < THRASH_BYTES / sizeof page; i++)
			if (write(fd, page, sizeof page) != (ssize_t)sizeof page)
				_exit(1);
		_exit(fd < 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

const char *thrash_start(struct thrash *thrash)
{
	const char *why;

	memset(thrash, 0, sizeof *thrash);
	why = group_make(&thrash->group, "thrash", THRASH_LIMIT);
	if (why)
		return why;
	snprintf(thrash->file, sizeof thrash->file, "/var/tmp/farpage-thrash-%d", (int)getpid());
	if (!file_make(thrash)) {
		thrash_end(thrash);
		return "no room for a file in /var/tmp";
	}
	for (int i = 0; i < THRASHERS; i++) {
		thrash->pids[i] = fork();
		if (thrash->pids[i] == 0)
			thrasher_be(thrash);
	}
	return NULL;
}

void thrash_end(struct thrash *thrash)
{
	for (int i = 0; i < THRASHERS; i++)
		if (thrash->pids[i] > 0) {
			kill(thrash->pids[i], SIGKILL);
			waitpid(thrash->pids[i], NULL, 0);
		}
	unlink(thrash->file);
	group_remove(&thrash->group);
}

uint64_t stalled_us(void)
{
	unsigned long long total = 0;
	FILE *file = fopen("/proc/pressure/memory", "re");

	if (file && fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &total) != 1)
		total = 0;
	if (file)
		fclose(file);
	return total;
}
