/* stall: see stall.h. */
#include "memserver/stall.h"

#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STALL_STACK (128u << 10)
#define TRIGGER "some 150000 2000000"
enum { STALL_MACHINE, STALL_GROUP, STALL_END, STALL_FDS };

static const char *const sources[STALL_END] = {
    [STALL_MACHINE] = "this machine (/proc/pressure/memory)",
    [STALL_GROUP] = "the control group (memory.pressure)",
};

struct stall {
	struct pollfd fds[STALL_FDS]; /* owned by the thread once it runs */
	int told, end;                /* eventfds */
	pthread_t thread;
	bool started;
};

/* Returns a trigger on the pressure file @path, or -errno. */
static int trigger_open(const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC), status;

	if (fd < 0)
		return -errno;
	if (write(fd, TRIGGER, sizeof TRIGGER) == (ssize_t)sizeof TRIGGER)
		return fd;
	status = -errno;
	close(fd);
	return status;
}

/* Returns a trigger on the pressure of this process's cgroup v2, or -errno if there is none. */
static int group_open(void)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char line[PATH_MAX], path[2 * PATH_MAX], *name = NULL;
	FILE *file = fopen("/proc/self/cgroup", "re");
	int fd = -ENOENT;

	if (!file)
		return -errno;
	while (!name && fgets(line, sizeof line, file))
		if (!strncmp(line, "0::", 3))
			name = line + 3;
	fclose(file);
	if (!name)
		return -ENOENT;
	name[strcspn(name, "\n")] = '\0';
	for (unsigned i = 0; fd == -ENOENT && i < sizeof mounts / sizeof *mounts; i++) {
		snprintf(path, sizeof path, "%s%s/memory.pressure", mounts[i], strcmp(name, "/") ? name : "");
		fd = trigger_open(path);
	}
	return fd;
}

static void *listen_on(void *data)
{
	struct stall *stall = data;

	while (poll(stall->fds, STALL_FDS, -1) > 0 || errno == EINTR) {
		if (stall->fds[STALL_END].revents)
			break;
		for (int i = 0; i < STALL_END; i++) {
			if (stall->fds[i].revents & POLLERR) { /* the group is gone */
				close(stall->fds[i].fd);
				stall->fds[i].fd = -1;
			} else if (stall->fds[i].revents & POLLPRI) {
				eventfd_write(stall->told, 1);
			}
		}
	}
	return NULL;
}

/* Logs each source that is missing. Otherwise nobody could tell why memory was not returned in time. */
static void lack_tell(const struct stall *stall)
{
	for (int i = 0; i < STALL_END; i++)
		if (stall->fds[i].fd < 0)
			log_info("cannot watch %s for stalls for lack of memory: %s", sources[i],
				 strerror(-stall->fds[i].fd));
}

int stall_open(struct stall **ret_stall)
{
	struct stall *stall = calloc(1, sizeof *stall);
	int status = 0;

	if (!stall)
		return -ENOMEM;
	stall->fds[STALL_MACHINE] = (struct pollfd){.fd = trigger_open("/proc/pressure/memory"), .events = POLLPRI};
	stall->fds[STALL_GROUP] = (struct pollfd){.fd = group_open(), .events = POLLPRI};
	stall->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stall->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stall->fds[STALL_END] = (struct pollfd){.fd = stall->end, .events = POLLIN};
	if (stall->fds[STALL_MACHINE].fd < 0 && stall->fds[STALL_GROUP].fd < 0)
		status = stall->fds[STALL_MACHINE].fd;
	else if (stall->told < 0 || stall->end < 0)
		status = -EMFILE;
	if (!status) {
		lack_tell(stall); /* before the thread owns the descriptors */
		status = thread_start(&stall->thread, "stall", STALL_STACK, listen_on, stall);
	}
	if (status < 0) {
		stall_close(stall);
		return status;
	}
	stall->started = true;
	*ret_stall = stall;
	return 0;
}

void stall_close(struct stall *stall)
{
	if (!stall)
		return;
	if (stall->started) {
		eventfd_write(stall->end, 1);
		pthread_join(stall->thread, NULL);
	}
	for (int i = 0; i < STALL_END; i++)
		if (stall->fds[i].fd >= 0)
			close(stall->fds[i].fd);
	if (stall->told >= 0)
		close(stall->told);
	if (stall->end >= 0)
		close(stall->end);
	free(stall);
}

int stall_fd(const struct stall *stall)
{
	return stall->told;
}

bool stall_take(struct stall *stall)
{
	eventfd_t count;

	return eventfd_read(stall->told, &count) == 0;
}
