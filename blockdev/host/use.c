#include "blockdev/host/use.h"

#include "blockdev/daemon/lines.h"
#include "blockdev/fuse/loop.h"
#include "common/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Replaces octal escapes, such as "\\040" for a space, in place. */
static void text_unescape(char *text)
{
	char *to = text;
	unsigned code;

	for (; *text; text++) {
		if (*text == '\\' && sscanf(text + 1, "%3o", &code) == 1) {
			*to++ = (char)code;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = 0;
}

/* Finds the number of the device at @path. If the file is missing, looks for its name in /sys. */
static bool device_of(const char *path, dev_t *ret_device)
{
	char file[64], text[32];
	struct stat node;
	unsigned major_number, minor_number;

	if (stat(path, &node) == 0) {
		*ret_device = node.st_rdev;
		return S_ISBLK(node.st_mode);
	}
	if (strncmp(path, "/dev/", 5) != 0)
		return false;
	snprintf(file, sizeof file, "/sys/class/block/%.32s/dev", path + 5);
	text_file_read(file, text, sizeof text);
	if (sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return false;
	*ret_device = makedev(major_number, minor_number);
	return true;
}

/* /proc/swaps has the path that the caller of swapon(2) gave. The file may have been renamed since, or removed: "PATH
   (deleted)". */
static bool swap_find(dev_t device, char ret_text[USE_TEXT_MAX])
{
	static const char deleted[] = " (deleted)";
	struct lines lines;
	char line[LINES_MAX], path[256], *end;
	dev_t other;
	bool found = false;

	lines_open(&lines, "/proc/swaps");
	while (!found && lines_next(&lines, line)) {
		if (sscanf(line, "%255s", path) != 1)
			continue;
		text_unescape(path);
		end = strstr(path, deleted);
		if (end && !end[sizeof deleted - 1])
			*end = 0;
		found = device_of(path, &other) && other == device;
	}
	lines_close(&lines);
	if (found)
		snprintf(ret_text, USE_TEXT_MAX, "swap space");
	return found;
}

/* Finds a mount, from lines like "36 35 98:0 /mnt1 /mnt2 rw ...". */
static bool mount_find(dev_t device, char ret_text[USE_TEXT_MAX])
{
	struct lines lines;
	char line[LINES_MAX], where[128];
	unsigned major_number, minor_number;
	bool found = false;

	lines_open(&lines, "/proc/self/mountinfo");
	while (!found && lines_next(&lines, line)) {
		if (sscanf(line, "%*d %*d %u:%u %*s %127s", &major_number, &minor_number, where) != 3 ||
		    makedev(major_number, minor_number) != device)
			continue;
		snprintf(ret_text, USE_TEXT_MAX, "mounted on %s", where);
		found = true;
	}
	lines_close(&lines);
	return found;
}

static bool holder_find(dev_t device, char ret_text[USE_TEXT_MAX])
{
	char path[64];
	struct dirent *entry;
	DIR *holders;
	bool found = false;

	snprintf(path, sizeof path, "/sys/dev/block/%u:%u/holders", major(device), minor(device));
	holders = opendir(path);
	while (holders && !found && (entry = readdir(holders))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(ret_text, USE_TEXT_MAX, "used by %.64s", entry->d_name);
		found = true;
	}
	if (holders)
		closedir(holders);
	return found;
}

/* Returns true if the descriptor is an O_PATH descriptor, which is not a use of the device. */
static bool descriptor_only_names(unsigned process, const char *number)
{
	char path[64], line[LINES_MAX];
	struct lines lines;
	unsigned flags = 0;

	snprintf(path, sizeof path, "/proc/%u/fdinfo/%.16s", process, number);
	lines_open(&lines, path);
	while (lines_next(&lines, line) && sscanf(line, "flags: %o", &flags) != 1)
		;
	lines_close(&lines);
	return flags & O_PATH;
}

static bool process_has_open(unsigned process, const char *device)
{
	char path[64], file[64];
	struct dirent *entry;
	bool found = false;
	DIR *descriptors;

	snprintf(path, sizeof path, "/proc/%u/fd", process);
	descriptors = opendir(path);
	while (descriptors && !found && (entry = readdir(descriptors))) {
		ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, file, sizeof file - 1);

		if (length < 0)
			continue;
		file[length] = 0;
		found = strcmp(file, device) == 0 && !descriptor_only_names(process, entry->d_name);
	}
	if (descriptors)
		closedir(descriptors);
	return found;
}

/* Finds a loop device over the device at @path. The kernel itself opens @path for the loop device, and not exclusively,
   so only /sys shows this use. */
static bool loop_find(const char *path, char ret_text[USE_TEXT_MAX])
{
	DIR *disks = opendir("/sys/block");
	char backing[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	int number;

	while (disks && !found && (entry = readdir(disks))) {
		found = sscanf(entry->d_name, "loop%d", &number) == 1 &&
			loop_backing(number, backing, sizeof backing) == 0 && strcmp(backing, path) == 0;
		if (found)
			snprintf(ret_text, USE_TEXT_MAX, "used by loop%d", number);
	}
	if (disks)
		closedir(disks);
	return found;
}

bool use_find_opener(const char *path, char ret_text[USE_TEXT_MAX])
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	bool found = false;
	unsigned process;

	while (processes && !found && (entry = readdir(processes))) {
		if (sscanf(entry->d_name, "%u", &process) != 1 || process == (unsigned)getpid())
			continue;
		found = process_has_open(process, path);
		if (found)
			snprintf(ret_text, USE_TEXT_MAX, "open in process %u", process);
	}
	if (processes)
		closedir(processes);
	return found || loop_find(path, ret_text);
}

bool use_find(const char *path, char ret_text[USE_TEXT_MAX])
{
	dev_t device;

	return device_of(path, &device) && (swap_find(device, ret_text) || mount_find(device, ret_text) ||
					    holder_find(device, ret_text) || use_find_opener(path, ret_text));
}

int use_watch(const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

bool use_is_taken(int watch)
{
	char path[32];
	bool taken;
	int fd;

	if (watch < 0)
		return false;
	snprintf(path, sizeof path, "/proc/self/fd/%d", watch);
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	taken = fd < 0 && errno == EBUSY;
	if (fd >= 0)
		close(fd);
	return taken;
}
