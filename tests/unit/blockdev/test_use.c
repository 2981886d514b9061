/* Unit tests of blockdev/use with the devices that this machine has mounted. The tests in tests/func check the rest. */
#include "blockdev/host/use.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Writes the path of a mounted device whose file exists. Returns false if there is none. */
static bool mounted_find(char ret_path[128])
{
	FILE *file = fopen("/proc/self/mounts", "r");
	char line[1024];
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found =
		    sscanf(line, "%127s", ret_path) == 1 && !strncmp(ret_path, "/dev/", 5) && !access(ret_path, F_OK);
	if (file)
		fclose(file);
	return found;
}

/* Lets a child open @path with @flags, which use_find_opener() then looks for. A file serves in place of a device.
   Returns true if the child is found. */
static bool child_opens(const char *path, int flags, char text[USE_TEXT_MAX])
{
	int ready[2], end[2];
	char byte = 0;
	bool found;
	pid_t child;

	if (pipe(ready) < 0 || pipe(end) < 0 || (child = fork()) < 0)
		abort();
	if (child == 0) {
		int fd = open(path, flags);

		close(end[1]);
		_exit(fd < 0 || write(ready[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0);
	}
	close(ready[1]);
	found = read(ready[0], &byte, 1) == 1 && use_find_opener(path, text);
	close(end[1]);
	close(end[0]);
	close(ready[0]);
	return waitpid(child, NULL, 0) == child && found;
}

static void another_process_with_the_device_open_is_found(void)
{
	const char *path = folder_path("opened");
	char text[USE_TEXT_MAX] = "";
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ok(fd >= 0 && !use_find_opener(path, text), "a device that only this process has open has no opener");
	close(fd);
	ok(child_opens(path, O_RDONLY, text) && !strncmp(text, "open in process ", 16),
	   "another process that has the device open is found");
	ok(!child_opens(path, O_PATH, text), "another process that opened the device with O_PATH is not found");
	ok(!use_find_opener(path, text), "a process that has ended is not found as an opener");
}

/* A file serves in place of a device here, too. */
static void a_loop_device_on_the_device_is_found(void)
{
	const char *path = folder_path("looped");
	char text[USE_TEXT_MAX] = "", command[128], device[64] = "";
	FILE *setup;

	text_write(path, "");
	if (truncate(path, 1 << 20) < 0)
		abort();
	snprintf(command, sizeof command, "losetup --find --show %s 2>/dev/null", path);
	setup = popen(command, "r");
	if (!setup || !fgets(device, sizeof device, setup) || pclose(setup) != 0) {
		tap_skip("a loop device on the device is found", "no loop device can be made here");
	} else {
		device[strcspn(device, "\n")] = '\0';
		ok(use_find_opener(path, text) && !strncmp(text, "used by loop", 12),
		   "a loop device on the device is found: %s", text);
		snprintf(command, sizeof command, "losetup --detach %s", device);
		ok(system(command) == 0 && !use_find_opener(path, text), "a detached loop device is not found");
	}
}

int main(void)
{
	char text[USE_TEXT_MAX], path[128];
	int watch;

	ok(!use_find("/dev/nothing", text), "a missing device is not in use");
	ok(!use_find("/etc/passwd", text), "a file is not in use as a device");
	ok(!use_find("/dev/null", text), "a character device is not in use");
	ok(use_watch("/dev/nothing") < 0, "watching a missing device fails");
	ok(!use_is_taken(-1), "a watch of -1 is not in exclusive use");
	watch = use_watch("/dev/null");
	ok(watch >= 0 && !use_is_taken(watch), "a device that can be opened is not in exclusive use");
	close(watch);
	another_process_with_the_device_open_is_found();
	a_loop_device_on_the_device_is_found();
	if (!mounted_find(path)) {
		tap_skip("a mounted device is in use", "no block device is mounted here");
		return tap_done();
	}
	ok(use_find(path, text) && !strncmp(text, "mounted on /", 12), "the mounted device %s is in use", path);
	return tap_done();
}
