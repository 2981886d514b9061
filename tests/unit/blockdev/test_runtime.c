/* Unit tests of blockdev/runtime: names, paths, and the folders themselves (as root). */
#include "blockdev/daemon/runtime.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void names_are_checked(void)
{
	static const char *const good[] = {"a", "swap", "0", "disk-1.old_2", "abcdefghijklmnopqrstuvwxyz012345"};
	static const char *const bad[] = {"",          ".",   "..",   "-x",
					  "_x",        "a/b", "a b",  "a\nb",
					  "n\xc3\xa4", "a%s", "../x", "abcdefghijklmnopqrstuvwxyz0123456"};

	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		ok(runtime_check_name(good[i]) == 0, "the name '%s' is valid", good[i]);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(runtime_check_name(bad[i]) == -EINVAL, "invalid name number %u is refused", i);
}

static void paths_lie_in_the_runtime_folder(void)
{
	char path[RUNTIME_PATH_MAX + 16], base[RUNTIME_PATH_MAX];

	unsetenv("FARPAGE_RUNTIME");
	runtime_path("n", "state", path);
	ok(!strcmp(path, "/run/farpage/n/state"), "a file's path is /run/farpage/NAME/FILE by default");
	memset(base, 'x', sizeof base - 1);
	base[0] = '/';
	base[sizeof base - 1] = 0;
	setenv("FARPAGE_RUNTIME", base, 1);
	ok(runtime_path("n", NULL, path) == -ENAMETOOLONG, "a folder whose path is too long for a socket is refused");
}

/* Lets a child create the folder "gone" and end without removing it. */
static void leave_one(void)
{
	pid_t child = fork();

	if (!child) {
		struct runtime runtime;

		_exit(runtime_create("gone", &runtime) == 0 ? 0 : 1);
	}
	waitpid(child, NULL, 0);
}

static void folders_are_created_taken_over_and_removed(void)
{
	struct runtime runtime, other, left;
	struct runtime_device device = {.frontend = "ublk", .device = {.path = "/dev/ublkb3", .number = 3}}, read;
	char names[8][RUNTIME_NAME_MAX + 1], text[64];
	struct statfs fs;

	ok(runtime_list(names, 8) == 0, "no folder is listed at first");
	ok(runtime_create("one", &runtime) == 0, "a folder is created");
	ok(statfs(runtime.folder, &fs) == 0 && (unsigned long)fs.f_type == 0x858458f6ul, "a folder is a ramfs");
	ok(runtime_create("one", &other) == -EEXIST, "creating a folder whose name is in use gets -EEXIST");
	ok(runtime_is_served("one") && !runtime_is_served("two"),
	   "a folder whose daemon lives is served, a missing folder is not");
	ok(runtime_adopt("one", 0, &other) == -EBUSY, "taking over a served folder gets -EBUSY");
	ok(runtime_adopt("two", 0, &other) == -ENOENT, "taking over a missing folder gets -ENOENT");
	ok(runtime_read_device("one", &read) == -ENOENT, "reading the device of a new folder gets -ENOENT");
	ok(runtime_write_device(&runtime, &device) == 0 && runtime_read_device("one", &read) == 0 &&
	       !strcmp(read.frontend, "ublk") && read.device.number == 3 && !strcmp(read.device.path, "/dev/ublkb3"),
	   "a device that is written to the folder is read back");
	ok(runtime_write(&runtime, "options", "--size=1M\n", 10) == 0 &&
	       runtime_read("one", "options", text, sizeof text) == 10 && !strcmp(text, "--size=1M\n"),
	   "options that are written to the folder are read back");
	ok(runtime_read("one", "options", text, 10) == -E2BIG, "reading a file into too little room gets -E2BIG");
	leave_one();
	ok(runtime_list(names, 8) == 2 && !strcmp(names[0], "gone") && !strcmp(names[1], "one"),
	   "all folders are listed, sorted by name");
	ok(!runtime_is_served("gone"), "a folder whose daemon has died is not served");
	ok(runtime_adopt("gone", 0, &left) == 0 && runtime_is_served("gone"),
	   "a folder whose daemon has died is taken over");
	runtime_leave(&left);
	ok(!runtime_is_served("gone"), "a folder that was left is not served");
	runtime_adopt("gone", 0, &left);
	runtime_remove(&left);
	runtime_remove(&runtime);
	ok(runtime_list(names, 8) == 0, "no folder is listed after all are removed");
	mkdir(runtime.folder, 0700);
	ok(runtime_adopt("one", 0, &runtime) == 0, "an empty folder without a mount is taken over");
	runtime_remove(&runtime);
	ok(access(runtime.folder, F_OK) < 0 && errno == ENOENT,
	   "a folder that was taken over is removed from the disk");
}

static void status_is_public_and_ages(void)
{
	const struct timespec old[2] = {{.tv_sec = time(NULL) - 60}, {.tv_sec = time(NULL) - 60}};
	struct runtime runtime;
	struct stat folder_stat, private, device;
	char text[64], path[RUNTIME_PATH_MAX + 16];
	int public;

	runtime_create("one", &runtime);
	runtime_write(&runtime, "options", "", 0);
	runtime_write_device(&runtime, &(struct runtime_device){.frontend = "ublk", .device = {.path = "/dev/x"}});
	ok(runtime_read_status("one", text, sizeof text) == -ENOENT, "a new folder has no status");
	public = runtime_public(&runtime);
	runtime_publish(public, "a long status");
	runtime_publish(public, "short");
	ok(runtime_read_status("one", text, sizeof text) == 5 && !strcmp(text, "short"),
	   "a status replaces a longer one as a whole");
	futimens(public, old);
	ok(runtime_read_status("one", text, sizeof text) == -ESTALE, "a status of a minute ago is not that of now");
	runtime_publish(-1, "x"); /* must do nothing */
	close(public);
	runtime_path("one", "options", path);
	stat(path, &private);
	runtime_path("one", "device", path);
	stat(path, &device);
	stat(runtime.folder, &folder_stat);
	ok((folder_stat.st_mode & 0777) == 0711 && (device.st_mode & 0777) == 0644 && (private.st_mode & 0777) == 0600,
	   "all users can open the public files of a folder, but neither list it nor read its options");
	runtime_remove(&runtime);
	snprintf(path, sizeof path, "%s/.lock", getenv("FARPAGE_RUNTIME"));
	ok(stat(path, &private) == 0 && (private.st_mode & 0777) == 0600, "only root can lock the parent folder");
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	names_are_checked();
	paths_lie_in_the_runtime_folder();
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		tap_skip("folders are created, taken over and removed", "not allowed to mount");
		return tap_done();
	}
	setenv("FARPAGE_RUNTIME", folder(), 1);
	folders_are_created_taken_over_and_removed();
	status_is_public_and_ages();
	return tap_done();
}
