/* Unit tests of blockdev/frontends: the choice of a front end. The probes return what the test wants. */
#include "blockdev/frontends.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int ublk_status, fuse_status;

static int probe_ublk(char ret_why[256])
{
	if (ublk_status < 0)
		strcpy(ret_why, "no ublk_drv");
	return ublk_status;
}

static int probe_fuse(char ret_why[256])
{
	if (fuse_status < 0)
		strcpy(ret_why, "no /dev/fuse");
	return fuse_status;
}

const struct frontend_ops frontend_ublk = {.name = "ublk", .adopts = true, .probe = probe_ublk};
const struct frontend_ops frontend_fuse = {.name = "fuse", .probe = probe_fuse};

/* Returns the front end that is chosen, or NULL. @ret_line gets the logged line, or "". */
static const struct frontend_ops *choose(const char *name, int *ret_status, char note[FRONTENDS_NOTE_MAX],
					 char ret_line[512])
{
	const struct frontend_ops *ops = NULL;
	int pipes[2];
	ssize_t got;

	memset(note, 'x', FRONTENDS_NOTE_MAX);
	if (pipe2(pipes, O_NONBLOCK) < 0)
		exit(EXIT_FAILURE);
	log_set_fd(pipes[1]);
	*ret_status = frontends_choose(name, &ops, note);
	got = read(pipes[0], ret_line, 511);
	ret_line[got > 0 ? got : 0] = 0;
	close(pipes[0]);
	close(pipes[1]);
	return ops;
}

static void the_data_in_progress_follows_queues_and_depth(void)
{
	ok(frontends_flight_kib(&frontend_ublk, 0, 0) == 16384 && frontends_flight_kib(&frontend_fuse, 0, 0) == 8192,
	   "ublk has at most 16 MiB in progress by default, FUSE 8 MiB");
	ok(frontends_flight_kib(&frontend_ublk, 2, 16) == 2 * 16 * 128,
	   "queues and depth set the data in progress to 128 KiB a request");
}

int main(void)
{
	char note[FRONTENDS_NOTE_MAX], line[512];
	int status;

	ok(choose("auto", &status, note, line) == &frontend_ublk && status == 0 && !*note && !*line,
	   "\"auto\" chooses ublk without a note if the machine has it");
	ok(choose("fuse", &status, note, line) == &frontend_fuse && status == 0 && !*note && !*line,
	   "\"fuse\" chooses FUSE although the machine has ublk");
	ublk_status = -ENOENT;
	ok(choose("auto", &status, note, line) == &frontend_fuse && status == 0 && strstr(note, "no ublk_drv"),
	   "\"auto\" chooses FUSE without ublk, and the note says why");
	ok(!choose("ublk", &status, note, line) && status == -ENOENT && !strcmp(line, "farpage: no ublk_drv\n"),
	   "\"ublk\" without ublk fails with the probe's error and line");
	fuse_status = -ENODEV;
	ok(!choose("auto", &status, note, line) && status == -ENODEV && strstr(line, "no ublk_drv") &&
	       strstr(line, "no /dev/fuse"),
	   "\"auto\" without any front end fails and logs both reasons in one line");
	ok(!choose("nbd", &status, note, line) && status == -EINVAL && strstr(line, "nbd"),
	   "an unknown front end gives -EINVAL and a line with its name");
	ok(!frontends_find("auto") && frontends_find("fuse") == &frontend_fuse,
	   "frontends_find() finds a front end by its name, but not \"auto\"");
	the_data_in_progress_follows_queues_and_depth();
	return tap_done();
}
