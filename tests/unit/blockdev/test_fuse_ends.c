/* test_fuse_ends: a FUSE device leaves nothing behind: when a step of its start fails, after many starts, and when the
   device is cleared away after its daemon was killed. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/fuse_device.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BYTES (16u << 20)
#define CYCLES 20u

/* --- Machines without FUSE ----------------------------------------------------------------------------------- */

/* Probes FUSE in a child with its own /dev, which contains only @device (NULL for none). Without @root the child
   runs as the user "nobody". Returns true if the probe returns @expected with @advice in its line. */
static bool is_told(int expected, const char *device, bool root, const char *advice)
{
	char why[256] = "";
	pid_t child = fork();
	int status;

	if (child == 0) {
		bool ready = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			     mount("none", "/dev", "tmpfs", 0, NULL) == 0 &&
			     (!device || mknod(device, S_IFREG | 0600, 0) == 0) && (root || seteuid(65534) == 0);

		_exit(!ready || frontend_fuse.probe(why) != expected || !strstr(why, advice));
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void the_probe_says_what_is_missing(void)
{
	ok(is_told(-EPERM, NULL, false, "sudo"), "the probe tells a user without rights to use sudo");
	ok(is_told(-ENODEV, NULL, true, "modprobe fuse"), "the probe advises \"modprobe fuse\" without /dev/fuse");
	ok(is_told(-ENODEV, "/dev/fuse", true, "modprobe loop"),
	   "the probe advises \"modprobe loop\" without loop devices");
}

/* --- A dead daemon ------------------------------------------------------------------------------------------- */

/* Serves a device in a child and waits for its number. Returns the child or -1. */
static pid_t serve(struct fuse_device *device, int32_t *ret_number)
{
	int pipes[2];
	pid_t child;

	if (pipe(pipes) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fuse_device_start(device, 2, 0) == 0 &&
		    write(pipes[1], &device->device.number, sizeof(int32_t)) == sizeof(int32_t))
			pause();
		_exit(EXIT_FAILURE);
	}
	close(pipes[1]);
	if (read(pipes[0], ret_number, sizeof *ret_number) != sizeof *ret_number)
		child = -1;
	close(pipes[0]);
	return child;
}

static void a_dead_daemons_device_is_cleared_away(void)
{
	struct fuse_device device;
	struct traces traces;
	char path[LOOP_PATH_MAX], data[STORE_PAGE];
	int32_t number = -1;
	pid_t daemon;
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	daemon = serve(&device, &number);
	if (!ok(daemon > 0 && number >= 0, "a FUSE device of another process starts"))
		return;
	loop_path(number, path);
	kill(daemon, SIGKILL);
	waitpid(daemon, NULL, 0);
	fd = open(path, O_RDONLY | O_DIRECT | O_EXCL | O_CLOEXEC);
	ok(pread(fd, data, sizeof data, 0) == -1, "a read of a FUSE device fails after its daemon was killed");
	ok(frontend_fuse.clear(number) == -EBUSY,
	   "clearing a dead daemon's device gets -EBUSY while a process has it open");
	close(fd);
	ok(frontend_fuse.clear(number) == 0, "a dead daemon's device is cleared away when nobody has it open");
	traces = count_traces(device.folder);
	ok(traces.mounts == 0 && traces.loops == 0,
	   "a device that was cleared away leaves no mount and no loop device");
	ok(frontend_fuse.clear(number) == -ENOENT, "clearing a device away a second time gets -ENOENT");
	ok(fuse_device_close(&device), "a device that was cleared away leaves nothing in its folder");
}

/* --- Copies of the mount ------------------------------------------------------------------------------------- */

/* Starts a child in its own mount namespace, where a copy of each mount stays. Returns the child or -1. */
static pid_t keep_mounts(void)
{
	int pipes[2];
	char ready = 0;
	pid_t child;

	if (pipe(pipes) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    write(pipes[1], "r", 1) == 1)
			pause();
		_exit(EXIT_FAILURE);
	}
	close(pipes[1]);
	if (read(pipes[0], &ready, 1) != 1)
		ready = 0;
	close(pipes[0]);
	return ready ? child : -1;
}

static void a_device_in_another_mount_namespace_is_removed(void)
{
	struct fuse_device device;
	struct traces before;
	pid_t keeper;

	fuse_device_open(&device, BYTES, NULL);
	before = count_traces(device.folder);
	ok(fuse_device_start(&device, 2, 0) == 0, "a FUSE device for the test of mount namespaces starts");
	keeper = keep_mounts();
	ok(keeper > 0, "another process copies the device's mount to its own namespace");
	ok(frontend_fuse.remove(device.frontend) == 0,
	   "a FUSE device is removed although another namespace has a copy of its mount");
	ok(traces_vanish(before, device.folder),
	   "a FUSE device whose mount was copied leaves no trace in this namespace");
	if (keeper > 0) {
		kill(keeper, SIGKILL);
		waitpid(keeper, NULL, 0);
	}
	ok(fuse_device_close(&device), "a FUSE device whose mount was copied leaves nothing in its folder");
}

/* --- Failing steps ------------------------------------------------------------------------------------------- */

static bool start_fails(struct fuse_device *device, int error, const char *what)
{
	struct traces before = count_traces(device->folder);
	int status = fuse_device_start(device, 2, 0);
	bool good = status == error && traces_vanish(before, device->folder);

	if (status == 0)
		frontend_fuse.remove(device->frontend);
	return ok(good, "a start fails without a trace if %s (%s)", what, strerror(-status));
}

/* Starts again and again, so that each step of a start once finds no free descriptor. */
static void a_start_without_descriptors_leaves_no_trace(void)
{
	struct fuse_device device;
	struct rlimit before, limit;
	struct traces traces;
	unsigned failed = 0, traced = 0, from;
	int status = -1;

	fuse_device_open(&device, BYTES, NULL);
	traces = count_traces(device.folder);
	getrlimit(RLIMIT_NOFILE, &before);
	/* Begins with fewer descriptors than are open. traces.fds also counts the descriptor of its own listing. */
	from = traces.fds - 3;
	for (unsigned room = 0; room < 64 && status < 0; room++) {
		limit = (struct rlimit){.rlim_cur = from + room, .rlim_max = before.rlim_max};
		setrlimit(RLIMIT_NOFILE, &limit);
		status = fuse_device_start(&device, 2, 0);
		setrlimit(RLIMIT_NOFILE, &before);
		failed += status < 0;
		traced += status < 0 && !traces_vanish(traces, device.folder);
	}
	ok(status == 0 && failed > 8, "a start fails with too few descriptors (%u failures) and succeeds with enough",
	   failed);
	ok(traced == 0, "a start that runs out of descriptors leaves no trace (%u did)", traced);
	if (status == 0)
		frontend_fuse.remove(device.frontend);
	ok(traces_vanish(traces, device.folder), "a device that started with just enough descriptors leaves no trace");
	fuse_device_close(&device);
}

static unsigned good_queues, opened_queues;
static const struct store_ops *real_ops;

static int open_some_queues(struct store *store, struct store_queue **ret_queue)
{
	return opened_queues++ < good_queues ? real_ops->queue_open(store, ret_queue) : -ECONNREFUSED;
}

static int refuse_memory(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	(void)store;
	(void)base;
	(void)length;
	(void)ret_buffer;
	return -EPERM;
}

static void a_failed_step_of_a_start_leaves_no_trace(void)
{
	struct fuse_device device;
	struct store_ops ops;
	char path[80];

	fuse_device_open(&device, BYTES, NULL);
	real_ops = device.memory->ops;
	ops = *real_ops;
	device.memory->ops = &ops;
	ops.queue_open = open_some_queues;
	start_fails(&device, -ECONNREFUSED, "the store refuses the first queue");
	opened_queues = 0;
	good_queues = 1;
	start_fails(&device, -ECONNREFUSED, "the store refuses the second queue");
	ops = *real_ops;
	ops.register_buffer = refuse_memory;
	start_fails(&device, -EPERM, "the store registers no memory");
	device.memory->ops = real_ops;
	snprintf(path, sizeof path, "%s/fuse", device.folder);
	mkdir(path, 0700);
	start_fails(&device, -EEXIST, "something already has the file's name");
	rmdir(path);
	rmdir(device.folder);
	start_fails(&device, -ENOENT, "the device's folder does not exist");
	mkdir(device.folder, 0700);
	ok(fuse_device_start(&device, 2, 0) == 0 && frontend_fuse.remove(device.frontend) == 0,
	   "a device starts and is removed after its starts failed at each step");
	fuse_device_close(&device);
}

/* --- Many ---------------------------------------------------------------------------------------------------- */

static void many_devices_leave_no_trace(void)
{
	struct fuse_device device, other;
	struct traces before, among;
	unsigned failed = 0;

	fuse_device_open(&device, BYTES, NULL);
	fuse_device_open(&other, BYTES, NULL);
	before = count_traces(device.folder);
	for (unsigned i = 0; i < CYCLES; i++) {
		failed += fuse_device_start(&device, 1 + i % 3, 0) != 0 || fuse_device_start(&other, 1, 0) != 0;
		among = count_traces(device.folder);
		failed += among.mounts != 1 || among.loops != 1;
		failed += frontend_fuse.remove(device.frontend) != 0 || frontend_fuse.remove(other.frontend) != 0;
	}
	ok(failed == 0, "two FUSE devices at a time start and are removed %u times", CYCLES);
	ok(traces_vanish(before, device.folder), "many FUSE devices leave no descriptor, thread, mount or loop device");
	ok(fuse_device_close(&device) && fuse_device_close(&other), "many FUSE devices leave nothing in their folders");
}

static void *do_nothing(void *argument)
{
	return argument;
}

int main(void)
{
	pthread_t first;
	char why[256];

	if (frontend_fuse.probe(why) < 0)
		return tap_skip_all(why);
	/* These two fork, so they run before there are threads. */
	the_probe_says_what_is_missing();
	a_dead_daemons_device_is_cleared_away();
	/* With the first thread, a sanitizer starts a thread of its own, which must not count as a trace. */
	pthread_create(&first, NULL, do_nothing, NULL);
	pthread_join(first, NULL);
	a_start_without_descriptors_leaves_no_trace();
	a_failed_step_of_a_start_leaves_no_trace();
	many_devices_leave_no_trace();
	a_device_in_another_mount_namespace_is_removed();
	return tap_done();
}
