/*
 * The ublk front end on a machine without ublk. Each operation fails, logs one line that says what to do next, and
 * leaves nothing behind. tests/vm/test_ublk.sh tests the front end on a machine with ublk.
 */
#include "blockdev/frontend.h"
#include "blockdev/ublk/ublk_control.h"
#include "common/log.h"
#include "tests/lib/entries.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Reads what was logged since the last call into `logged`. Returns the number of lines. */
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
	ok(status == -ENOENT && strstr(why, "modprobe ublk_drv"), "the probe says what is missing: %s", why);
	ok(!strchr(why, '\n') && logged_lines(log[0]) == 0, "the probe gives its reason in one line and logs nothing");
	status = frontend_ublk.start(&config, disk, &frontend);
	ok(status == -ENOENT && one_line(log[0], "modprobe ublk_drv"),
	   "a start without ublk is refused with one logged line");
	status = frontend_ublk.adopt(&config, disk, &frontend);
	ok(status == -ENOENT && one_line(log[0], "modprobe ublk_drv"),
	   "an adoption without ublk is refused with one logged line");
	ok(frontend_ublk.clear(0) == -ENOENT, "clearing a device without ublk gets -ENOENT");
	ok(!frontend && entries("/proc/self/fd") == fds, "refused operations leave no front end and no descriptor");
	ok(frontend_ublk.adopts && strcmp(frontend_ublk.name, "ublk") == 0, "ublk devices outlive their daemon");

	disk_close(disk);
	store_close(store);
	return tap_done();
}
