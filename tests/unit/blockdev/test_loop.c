/* test_loop: loop devices on a file: they are attached, told apart, kept while in use, and detached, also by several
   threads at once. */
#include "blockdev/fuse/loop.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1 << 20)
#define RACERS 4
#define TURNS 10

static int file;

static int attach(int32_t *ret_number, char ret_backing[PATH_MAX])
{
	return loop_attach(file, "tested", 4096, ret_number, ret_backing, PATH_MAX);
}

static int open_number(int32_t number, int flags)
{
	char path[LOOP_PATH_MAX];

	loop_path(number, path);
	return open(path, O_RDONLY | O_CLOEXEC | flags);
}

static bool ends_when_closed(int32_t number)
{
	struct loop_info64 info = {0};
	int fd = open_number(number, 0);
	bool good = ioctl(fd, LOOP_GET_STATUS64, &info) == 0;

	close(fd);
	return good && info.lo_flags & LO_FLAGS_AUTOCLEAR;
}

static void a_loop_device_in_use_is_not_detached(const char *path)
{
	char backing[PATH_MAX] = "", again[PATH_MAX] = "", short_path[4];
	int32_t number = -1, second = -1;
	int fd;

	ok(attach(&number, backing) == 0, "a file gets a loop device");
	ok(strcmp(strrchr(backing, '/'), strrchr(path, '/')) == 0, "attaching returns the path of the file");
	ok(loop_backing(number, again, sizeof again) == 0 && strcmp(backing, again) == 0,
	   "loop_backing() returns the path that attaching returned");
	ok(loop_backing(number, short_path, sizeof short_path) == -ENAMETOOLONG,
	   "loop_backing() gets -ENAMETOOLONG if the path does not fit");
	ok(attach(&second, again) == 0 && second != number, "a file gets a second loop device with another number");
	ok(loop_detach(second, "/elsewhere") == -ENOENT, "detaching gets -ENOENT if the device is on another file");
	ok(loop_detach(second, again) == 0, "the second loop device of a file is detached");
	ok(loop_detach(second, again) == -ENOENT && loop_backing(second, again, sizeof again) == -ENOENT,
	   "a detached loop device is on no file");
	fd = open_number(number, O_EXCL);
	ok(loop_detach(number, backing) == -EBUSY,
	   "detaching gets -EBUSY while a process has the device open exclusively");
	close(fd);
	fd = open_number(number, 0);
	ok(loop_detach(number, backing) == -EBUSY, "detaching gets -EBUSY while a process has the device open");
	ok(!ends_when_closed(number), "a refused detach does not make the device end when it is closed");
	close(fd);
	ok(loop_backing(number, again, sizeof again) == 0,
	   "a loop device outlives a refused detach and its last opener");
	ok(loop_detach(number, backing) == 0, "a loop device is detached when nobody has it open");
}

/* Detaches in a child that has its own, empty /dev. */
static bool detaches_without_file(int32_t number, const char *backing)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		bool ready = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			     mount("none", "/dev", "tmpfs", 0, NULL) == 0;

		_exit(!ready || loop_detach(number, backing) != 0);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_loop_device_without_its_file_is_detached(void)
{
	char backing[PATH_MAX] = "";
	int32_t number = -1;

	ok(attach(&number, backing) == 0, "a loop device for the test without device files attaches");
	ok(detaches_without_file(number, backing), "a loop device is detached although its file in /dev has vanished");
	ok(loop_backing(number, backing, sizeof backing) == -ENOENT,
	   "a loop device detached without its file in /dev is on no file");
}

static void *race(void *argument)
{
	unsigned *failed = argument;
	char backing[PATH_MAX];
	int32_t number;

	for (unsigned i = 0; i < TURNS; i++)
		*failed += attach(&number, backing) != 0 || loop_detach(number, backing) != 0;
	return NULL;
}

static void threads_attach_and_detach_at_once(void)
{
	pthread_t threads[RACERS];
	unsigned failed[RACERS] = {0}, sum = 0;

	for (unsigned i = 0; i < RACERS; i++)
		pthread_create(&threads[i], NULL, race, &failed[i]);
	for (unsigned i = 0; i < RACERS; i++) {
		pthread_join(threads[i], NULL);
		sum += failed[i];
	}
	ok(sum == 0, "%u loop devices are attached and detached by several threads (%u failed)", RACERS * TURNS, sum);
}

int main(void)
{
	char path[] = "/tmp/farpage-loop-XXXXXX", backing[PATH_MAX];
	int32_t number;
	int error;

	if (geteuid() != 0)
		return tap_skip_all("loop devices are root's");
	if (access("/dev/loop-control", R_OK | W_OK) != 0)
		return tap_skip_all("no loop devices here");
	file = mkostemp(path, O_CLOEXEC);
	if (file < 0 || ftruncate(file, BYTES) < 0)
		return EXIT_FAILURE;
	error = attach(&number, backing);
	if (error == -EOPNOTSUPP) {
		unlink(path);
		return tap_skip_all("the file system of /tmp has no direct I/O");
	}
	ok(error == 0 && loop_detach(number, backing) == 0, "a loop device is attached and detached");
	a_loop_device_in_use_is_not_detached(path);
	a_loop_device_without_its_file_is_detached(); /* forks, so it runs before there are threads */
	threads_attach_and_detach_at_once();
	error = loop_attach(STDIN_FILENO, "nothing", 4096, &number, backing, sizeof backing);
	ok(error < 0, "standard input gets no loop device");
	close(file);
	unlink(path);
	return tap_done();
}
