/*
 * The ublk front end where there is no ublk: refused, in one line with the next step, and nothing is left. What it does
 * where there is: tests/vm/test_ublk.sh.
 */
#include "blockdev/frontend.h"
#include "blockdev/ublk/ublk_control.h"
#include "common/log.h"
#include "tests/entries.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What was logged since the last time, and how many lines. */
static char logged[1024];
static unsigned logged_lines(int log)
{
	ssize_t length = read(log, logged, sizeof logged - 1);
	unsigned lines = 0;

	logged[length > 0 ? length : 0] = '\0';
	for (const char *c = logged; *c; c++)
		lines += *c == '\n';
	return lines;
}

static bool one_line(int log, const char *part)
{
	unsigned lines = logged_lines(log);

	if (lines != 1 || !strstr(logged, part))
		printf("# logged: %s\n", logged);
	return lines == 1 && strstr(logged, part);
}

int main(void)
{
	struct frontend_config config = {.name = "test", .number = 0};
	struct frontend *frontend = NULL;
	struct store *store;
	struct disk *disk;
	char why[256] = "";
	int log[2], status;
	unsigned fds;

	if (access(UBLK_CONTROL_PATH, F_OK) == 0)
		return tap_skip_all("this machine has ublk");
	if (pipe2(log, O_NONBLOCK | O_CLOEXEC) < 0 || store_open_memory(16, &store) < 0 ||
	    disk_open(store, 16 * STORE_PAGE, &disk) < 0)
		return 1;
	log_set_fd(log[1]);
	fds = entries("/proc/self/fd");

	status = frontend_ublk.probe(why);
	ok(status == -ENOENT && strstr(why, "modprobe ublk_drv"), "probe: %s", why);
	ok(!strchr(why, '\n') && logged_lines(log[0]) == 0, "... in one line, and logs nothing");
	status = frontend_ublk.start(&config, disk, &frontend);
	ok(status == -ENOENT && one_line(log[0], "modprobe ublk_drv"), "start: refused in one line");
	status = frontend_ublk.adopt(&config, disk, &frontend);
	ok(status == -ENOENT && one_line(log[0], "modprobe ublk_drv"), "adopt: refused in one line");
	ok(frontend_ublk.clear(0) == -ENOENT, "clear: there is nothing to remove");
	ok(!frontend && entries("/proc/self/fd") == fds, "nothing is left of all that");
	ok(frontend_ublk.adopts && strcmp(frontend_ublk.name, "ublk") == 0, "its devices outlive their daemon");

	disk_close(disk);
	store_close(store);
	return tap_done();
}
