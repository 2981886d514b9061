/* Unit tests of common/text_file. */
#include "common/text_file.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	int file = memfd_create("text", MFD_CLOEXEC);
	char path[32], text[8] = "before";

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	ok(text_file_read(path, text, sizeof text) == 0 && !*text, "an empty file");
	ok(text_file_write(path, "max\n") == 0, "a setting is written");
	ok(text_file_read(path, text, sizeof text) == 4 && !strcmp(text, "max\n"), "and read");
	ok(text_file_write(path, "1234567890") == 0 && text_file_read(path, text, sizeof text) == 7 &&
	       !strcmp(text, "1234567"),
	   "of a longer one the beginning, with an end");
	ok(text_file_read("/none", text, sizeof text) == -ENOENT && !*text, "no file: why, and no text");
	ok(text_file_read("/proc/self", text, sizeof text) == -EISDIR && !*text, "nothing to read: why, and no text");
	ok(text_file_write("/none", "x") == -ENOENT && access("/none", F_OK) < 0, "no file: none is made");
	close(file);
	return tap_done();
}
