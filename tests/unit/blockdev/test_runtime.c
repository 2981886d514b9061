/* Unit tests of blockdev/runtime: names, paths, and as root the folders themselves. */
#include "blockdev/daemon/runtime.h"
#include "common/log.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_names(void)
{
	static const char *const good[] = {"a", "swap", "0", "disk-1.old_2", "abcdefghijklmnopqrstuvwxyz012345"};
	static const char *const bad[] = {"",          ".",   "..",   "-x",
					  "_x",        "a/b", "a b",  "a\nb",
					  "n\xc3\xa4", "a%s", "../x", "abcdefghijklmnopqrstuvwxyz0123456"};

	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		ok(runtime_check_name(good[i]) == 0, "'%s' is a name", good[i]);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(runtime_check_name(bad[i]) == -EINVAL, "number %u of those that are none", i);
}

static void test_paths(void)
{
	char path[RUNTIME_PATH_MAX + 16], base[RUNTIME_PATH_MAX];

	unsetenv("FARPAGE_RUNTIME");
	runtime_path("n", "state", path);
	ok(!strcmp(path, "/run/farpage/n/state"), "a file's path");
	memset(base, 'x', sizeof base - 1);
	base[0] = '/';
	base[sizeof base - 1] = 0;
	setenv("FARPAGE_RUNTIME", base, 1);
	ok(runtime_path("n", NULL, path) == -ENAMETOOLONG, "a folder that is too long for a socket is refused");
}

/* A child that has made folder "gone" and dies without a word. */
static void leave_one(void)
{
	pid_t child = fork();

	if (!child) {
		struct runtime runtime;

		_exit(runtime_create("gone", &runtime) == 0 ? 0 : 1);
	}
	waitpid(child, NULL, 0);
}

static void test_folders(void)
{
	struct runtime runtime, other, left;
	struct runtime_device device = {.frontend = "ublk", .device = {.path = "/dev/ublkb3", .number = 3}}, read;
	char names[8][RUNTIME_NAME_MAX + 1], text[64];
	struct statfs fs;

	ok(runtime_list(names, 8) == 0, "none at first");
	ok(runtime_create("one", &runtime) == 0, "a folder is made");
	ok(statfs(runtime.folder, &fs) == 0 && (unsigned long)fs.f_type == 0x858458f6ul, "it is a ramfs");
	ok(runtime_create("one", &other) == -EEXIST, "its name is in use");
	ok(runtime_is_served("one") && !runtime_is_served("two"), "it is served, and one that is not there is not");
	ok(runtime_adopt("one", 0, &other) == -EBUSY, "nobody else takes it over");
	ok(runtime_adopt("two", 0, &other) == -ENOENT, "nor what is not there");
	ok(runtime_read_device("one", &read) == -ENOENT, "no device yet");
	ok(runtime_write_device(&runtime, &device) == 0 && runtime_read_device("one", &read) == 0 &&
	       !strcmp(read.frontend, "ublk") && read.device.number == 3 && !strcmp(read.device.path, "/dev/ublkb3"),
	   "the device is written and read");
	ok(runtime_write(&runtime, "options", "--size=1M\n", 10) == 0 &&
	       runtime_read("one", "options", text, sizeof text) == 10 && !strcmp(text, "--size=1M\n"),
	   "so are options");
	ok(runtime_read("one", "options", text, 10) == -E2BIG, "what does not fit is not cut off");
	leave_one();
	ok(runtime_list(names, 8) == 2 && !strcmp(names[0], "gone") && !strcmp(names[1], "one"), "all are listed");
	ok(!runtime_is_served("gone"), "one whose maker has died is not served");
	ok(runtime_adopt("gone", 0, &left) == 0 && runtime_is_served("gone"), "it is taken over");
	runtime_leave(&left);
	ok(!runtime_is_served("gone"), "and left");
	runtime_adopt("gone", 0, &left);
	runtime_remove(&left);
	runtime_remove(&runtime);
	ok(runtime_list(names, 8) == 0, "removed, all of it");
	mkdir(runtime.folder, 0700);
	ok(runtime_adopt("one", 0, &runtime) == 0, "a folder that is not even mounted is taken over");
	runtime_remove(&runtime);
	ok(access(runtime.folder, F_OK) < 0 && errno == ENOENT, "and removed");
}

int main(void)
{
	char base[] = "/tmp/farpage-runtime-XXXXXX";

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	test_names();
	test_paths();
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		tap_skip("folders", "not allowed to mount");
		return tap_done();
	}
	if (!mkdtemp(base))
		return EXIT_FAILURE;
	setenv("FARPAGE_RUNTIME", base, 1);
	test_folders();
	rmdir(base);
	return tap_done();
}
