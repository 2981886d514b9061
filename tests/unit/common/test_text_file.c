/* Unit tests of common/text_file. */
#include "common/text_file.h"
#include "tests/lib/tap.h"

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
	ok(text_file_read(path, text, sizeof text) == 0 && !*text, "an empty file reads as an empty text");
	ok(text_file_write(path, "max\n") == 0, "a setting is written to a file");
	ok(text_file_read(path, text, sizeof text) == 4 && !strcmp(text, "max\n"),
	   "a setting reads back as it was written");
	ok(text_file_write(path, "1234567890") == 0 && text_file_read(path, text, sizeof text) == 7 &&
	       !strcmp(text, "1234567"),
	   "a text longer than the buffer is cut and terminated");
	ok(text_file_read("/none", text, sizeof text) == -ENOENT && !*text,
	   "reading a missing file returns -ENOENT and an empty text");
	ok(text_file_read("/proc/self", text, sizeof text) == -EISDIR && !*text,
	   "reading a directory returns -EISDIR and an empty text");
	ok(text_file_write("/none", "x") == -ENOENT && access("/none", F_OK) < 0,
	   "writing a missing file returns -ENOENT and makes none");
	close(file);
	return tap_done();
}
