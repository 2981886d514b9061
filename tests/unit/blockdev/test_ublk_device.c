/* Unit tests of blockdev/ublk_device: opening a disk exclusively, with files in the test's own /dev. */
#include "blockdev/ublk/ublk_device.h"
#include "common/clock.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPEN_NS UINT64_C(200000000)

/* Starts a child that keeps the disk open for @ns. The disk is open on return. Returns the child. */
static pid_t child_opens(const char *path, uint64_t ns)
{
	const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	int ready[2];
	pid_t child;
	char byte = 0;

	if (pipe(ready) < 0 || (child = fork()) < 0)
		abort();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (open(path, O_RDONLY) < 0 || write(ready[1], &byte, 1) != 1)
			_exit(EXIT_FAILURE);
		nanosleep(&pause, NULL);
		_exit(EXIT_SUCCESS);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		abort();
	close(ready[0]);
	return child;
}

int main(void)
{
	char path[64];
	uint64_t begun;
	pid_t child;
	int fd = -1;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("test", "/dev", "tmpfs", 0, NULL) < 0)
		return tap_skip_all("a /dev of its own needs root");
	ublk_device_path(3, path, sizeof path);
	ok(ublk_device_hold(3, &fd) == -ENOENT && fd == -1, "holding a missing disk gets -ENOENT");
	close(open(path, O_WRONLY | O_CREAT, 0600));
	ok(ublk_device_hold(3, &fd) == 0 && fd >= 0, "a disk that nobody has open is held");
	close(fd);
	begun = clock_now();
	child = child_opens(path, OPEN_NS);
	ok(ublk_device_hold(3, &fd) == 0, "a disk that another process has open for a moment is held");
	ok(clock_now() - begun >= OPEN_NS, "holding a disk waits until another process has closed it");
	close(fd);
	waitpid(child, NULL, 0);
	child = child_opens(path, UINT64_C(60000000000));
	fd = -1;
	ok(ublk_device_hold(3, &fd) == -EBUSY && fd == -1,
	   "holding a disk that another process keeps open gets -EBUSY");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return tap_done();
}
