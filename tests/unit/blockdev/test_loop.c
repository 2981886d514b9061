/* test_loop: loop devices over a file: made, told apart, kept while in use, unmade, by several at the same time. */
#include "blockdev/fuse/loop.h"
#include "tests/tap.h"

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

static void test_use(const char *path)
{
	char backing[PATH_MAX] = "", again[PATH_MAX] = "", short_path[4];
	int32_t number = -1, second = -1;
	int fd;

	ok(attach(&number, backing) == 0, "a file gets a loop device");
	ok(strcmp(strrchr(backing, '/'), strrchr(path, '/')) == 0, "which is over that file");
	ok(loop_backing(number, again, sizeof again) == 0 && strcmp(backing, again) == 0, "as can be asked again");
	ok(loop_backing(number, short_path, sizeof short_path) == -ENAMETOOLONG, "given room for the answer");
	ok(attach(&second, again) == 0 && second != number, "and another");
	ok(loop_detach(second, "/elsewhere") == -ENOENT, "a device over something else is left alone");
	ok(loop_detach(second, again) == 0, "the second is unmade");
	ok(loop_detach(second, again) == -ENOENT && loop_backing(second, again, sizeof again) == -ENOENT,
	   "and is over nothing then");
	fd = open_number(number, O_EXCL);
	ok(loop_detach(number, backing) == -EBUSY, "the first is kept by who has it for himself");
	close(fd);
	fd = open_number(number, 0);
	ok(loop_detach(number, backing) == -EBUSY, "and by who has it open");
	ok(!ends_when_closed(number), "also when he closes it");
	close(fd);
	ok(loop_backing(number, again, sizeof again) == 0, "so it is still there");
	ok(loop_detach(number, backing) == 0, "until it is unmade");
}

/* In a process with an empty /dev of its own. */
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

static void test_vanished(void)
{
	char backing[PATH_MAX] = "";
	int32_t number = -1;

	ok(attach(&number, backing) == 0, "another device");
	ok(detaches_without_file(number, backing), "is unmade where its file in /dev has vanished");
	ok(loop_backing(number, backing, sizeof backing) == -ENOENT, "really");
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

static void test_races(void)
{
	pthread_t threads[RACERS];
	unsigned failed[RACERS] = {0}, sum = 0;

	for (unsigned i = 0; i < RACERS; i++)
		pthread_create(&threads[i], NULL, race, &failed[i]);
	for (unsigned i = 0; i < RACERS; i++) {
		pthread_join(threads[i], NULL);
		sum += failed[i];
	}
	ok(sum == 0, "of %u devices made and unmade at the same time %u failed", RACERS * TURNS, sum);
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
	ok(error == 0 && loop_detach(number, backing) == 0, "a device is made and unmade");
	test_use(path);
	test_vanished(); /* forks: there are no threads yet */
	test_races();
	error = loop_attach(STDIN_FILENO, "nothing", 4096, &number, backing, sizeof backing);
	ok(error < 0, "what is no file gets no device");
	close(file);
	unlink(path);
	return tap_done();
}
