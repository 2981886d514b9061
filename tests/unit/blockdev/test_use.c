/* Unit tests of blockdev/use: of what this machine has mounted and swaps to; the rest is checked from outside, in func.
 */
#include "blockdev/host/use.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A device that is mounted here, with a file of its own, by the kernel's list; false: none. */
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

/* A file serves as well as a device: a child opens it, or only names it. */
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

static void test_opener(void)
{
	char path[] = "/tmp/farpage-use-XXXXXX", text[USE_TEXT_MAX] = "";
	int fd = mkstemp(path);

	ok(fd >= 0 && !use_find_opener(path, text), "what this process has open is its own affair");
	close(fd);
	ok(child_opens(path, O_RDONLY, text) && !strncmp(text, "open in process ", 16), "another has it open");
	ok(!child_opens(path, O_PATH, text), "or only names it");
	ok(!use_find_opener(path, text), "nobody has it open any more");
	unlink(path);
}

/* A file serves here, too. */
static void test_loop(void)
{
	char path[] = "/tmp/farpage-use-XXXXXX", text[USE_TEXT_MAX] = "", command[128], device[64] = "";
	int fd = mkstemp(path);
	FILE *setup;

	if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
		abort();
	close(fd);
	snprintf(command, sizeof command, "losetup --find --show %s 2>/dev/null", path);
	setup = popen(command, "r");
	if (!setup || !fgets(device, sizeof device, setup) || pclose(setup) != 0) {
		tap_skip("a loop device", "none can be made here");
	} else {
		device[strcspn(device, "\n")] = '\0';
		ok(use_find_opener(path, text) && !strncmp(text, "used by loop", 12), "a loop device is over it: %s",
		   text);
		snprintf(command, sizeof command, "losetup --detach %s", device);
		ok(system(command) == 0 && !use_find_opener(path, text), "and is gone");
	}
	unlink(path);
}

int main(void)
{
	char text[USE_TEXT_MAX], path[128];
	int watch;

	ok(!use_find("/dev/nothing", text), "a device that is not there is not used");
	ok(!use_find("/etc/passwd", text), "nor is a file");
	ok(!use_find("/dev/null", text), "nor a character device");
	ok(use_watch("/dev/nothing") < 0, "what is not there cannot be watched");
	ok(!use_is_taken(-1), "nor taken");
	watch = use_watch("/dev/null");
	ok(watch >= 0 && !use_is_taken(watch), "what can be opened is not taken");
	close(watch);
	test_opener();
	test_loop();
	if (!mounted_find(path)) {
		tap_skip("a mount", "no block device is mounted here");
		return tap_done();
	}
	ok(use_find(path, text) && !strncmp(text, "mounted on /", 12), "%s is mounted", path);
	return tap_done();
}
