/* run_live: see run_live.h. */
#include "cli/run/run_live.h"

#include "common/clock.h"
#include "common/process.h"
#include "common/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME "farpage-run"
#define LINK "/memfd:" NAME " (deleted)"
#define PIDS_MAX 4096
#define READ_TRIES 100

/* --- In the run ------------------------------------------------------------------------------------------------- */

static void command_text(char **argv, char *ret_text, size_t size)
{
	size_t used = 0;

	for (unsigned i = 0; argv[i] && used < size; i++)
		used += (size_t)snprintf(ret_text + used, size - used, "%s%s", i ? " " : "", argv[i]);
	/* Replaces control characters, because other users print this text on their terminals. */
	for (char *at = ret_text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

struct run_live *run_live_open(const char *engine, uint64_t local, char **argv)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC);
	struct run_live *live = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, sizeof *live) == 0)
		live = mmap(NULL, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (live == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	/* The descriptor stays open, because other processes find the memory by its name in /proc. */
	live->started_ns = live->updated_ns = clock_now();
	live->local_bytes = local;
	snprintf(live->engine, sizeof live->engine, "%s", engine);
	command_text(argv, live->command, sizeof live->command);
	live->magic = RUN_LIVE_MAGIC;
	return live;
}

bool run_live_is_due(const struct run_live *live)
{
	return live && clock_now() - live->updated_ns >= RUN_LIVE_MS * UINT64_C(1000000);
}

void run_live_begin(struct run_live *live)
{
	__atomic_store_n(&live->changing, live->changing + 1, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_seq_cst);
	live->updated_ns = clock_now();
}

void run_live_end(struct run_live *live)
{
	__atomic_store_n(&live->changing, live->changing + 1, __ATOMIC_RELEASE);
}

/* --- In other processes ----------------------------------------------------------------------------------------- */

/* Reads the figures at a moment when no change is in progress. Returns false if the run was stopped during a change. */
static bool read_whole(int fd, struct run_live *ret_live)
{
	struct run_live before;

	for (unsigned i = 0; i < READ_TRIES; i++) {
		if (pread(fd, &before, sizeof before, 0) != sizeof before || before.magic != RUN_LIVE_MAGIC)
			return false;
		if (pread(fd, ret_live, sizeof *ret_live, 0) != sizeof *ret_live)
			return false;
		if (before.changing == ret_live->changing && !(before.changing & 1))
			return true;
		usleep(100);
	}
	return false;
}

/* Returns false if there are no figures, with errno EACCES if this user may not look for them. */
static bool read_process(pid_t pid, struct run_live *ret_live)
{
	char path[300], link[sizeof LINK + 1];
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *directory = opendir(path);
	if (!directory)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(directory));) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);

		if (length != sizeof LINK - 1 || memcmp(link, LINK, (size_t)length) != 0)
			continue;
		int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
		found = fd >= 0 && read_whole(fd, ret_live);
		if (fd >= 0)
			close(fd);
	}
	closedir(directory);
	errno = 0;
	return found;
}

/* Returns true if the process was started as `farpage run`. All users may read this, as ps(1) does. */
static bool is_run(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	const ssize_t length = text_file_read(path, text, sizeof text);
	const size_t verb = strlen(text) + 1;
	const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
	return strcmp(name, "farpage") == 0 && (ssize_t)verb < length && strcmp(text + verb, "run") == 0;
}

/* Returns true if the process helps a run, as its guard does: it is the child of another process of that run. */
static bool is_helper(pid_t pid)
{
	struct process process;

	return process_look(pid, &process) == 0 && is_run(process.parent);
}

static int compare(const void *one, const void *other)
{
	return *(const pid_t *)one - *(const pid_t *)other;
}

unsigned run_live_each(void (*look)(pid_t pid, const struct run_live *live, void *user), void *user)
{
	static pid_t pids[PIDS_MAX];
	unsigned count = 0, closed = 0;
	struct run_live live;
	DIR *directory = opendir("/proc");

	for (struct dirent *entry; directory && count < PIDS_MAX && (entry = readdir(directory));) {
		char comm[64], name[16] = "";
		pid_t pid = atoi(entry->d_name);

		snprintf(comm, sizeof comm, "/proc/%d/comm", (int)pid);
		FILE *file = pid > 0 ? fopen(comm, "re") : NULL;
		if (file && fgets(name, sizeof name, file) && strncmp(name, "farpage", 7) == 0)
			pids[count++] = pid;
		if (file)
			fclose(file);
	}
	if (directory)
		closedir(directory);
	qsort(pids, count, sizeof pids[0], compare);
	for (unsigned i = 0; i < count; i++) {
		if (read_process(pids[i], &live))
			look(pids[i], &live, user);
		else if (errno == EACCES && is_run(pids[i]) && !is_helper(pids[i]))
			closed++;
	}
	return closed;
}
