/* test_fuse_ends: a device by FUSE leaves nothing: not when a step of its start fails, not after many, not after its
   daemon was killed and it was cleared away. */
#include "tests/tap.h"
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

/* --- Machines without ---------------------------------------------------------------------------------------- */

/* A process of nobody's, with a /dev of its own in which only @device is; what it is told. */
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

static void test_probe(void)
{
	ok(is_told(-EPERM, NULL, false, "sudo"), "nobody is told to be root");
	ok(is_told(-ENODEV, NULL, true, "modprobe fuse"), "without /dev/fuse one is told what to load");
	ok(is_told(-ENODEV, "/dev/fuse", true, "modprobe loop"), "and without loop devices");
}

/* --- A dead daemon ------------------------------------------------------------------------------------------- */

/* Serves a device in a process of its own, which tells its number. */
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

static void test_dead(void)
{
	struct fuse_device device;
	struct traces traces;
	char path[LOOP_PATH_MAX], data[STORE_PAGE];
	int32_t number = -1;
	pid_t daemon;
	int fd;

	fuse_device_open(&device, BYTES, NULL);
	daemon = serve(&device, &number);
	if (!ok(daemon > 0 && number >= 0, "a device of another process"))
		return;
	loop_path(number, path);
	kill(daemon, SIGKILL);
	waitpid(daemon, NULL, 0);
	fd = open(path, O_RDONLY | O_DIRECT | O_EXCL | O_CLOEXEC);
	ok(pread(fd, data, sizeof data, 0) == -1, "gives errors when that was killed");
	ok(frontend_fuse.clear(number) == -EBUSY, "is not cleared away while somebody has it");
	close(fd);
	ok(frontend_fuse.clear(number) == 0, "and is when he has closed it");
	traces = count_traces(device.folder);
	ok(traces.mounts == 0 && traces.loops == 0, "without a trace");
	ok(frontend_fuse.clear(number) == -ENOENT, "once");
	ok(fuse_device_close(&device), "and without a folder");
}

/* --- Copies of the mount ------------------------------------------------------------------------------------- */

/* A process in a mount namespace of its own, where a copy of each mount stays. */
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

static void test_namespaces(void)
{
	struct fuse_device device;
	struct traces before;
	pid_t keeper;

	fuse_device_open(&device, BYTES, NULL);
	before = count_traces(device.folder);
	ok(fuse_device_start(&device, 2, 0) == 0, "a device");
	keeper = keep_mounts();
	ok(keeper > 0, "whose mount somebody else has a copy of");
	ok(frontend_fuse.remove(device.frontend) == 0, "is removed all the same");
	ok(traces_vanish(before, device.folder), "and leaves nothing here");
	if (keeper > 0) {
		kill(keeper, SIGKILL);
		waitpid(keeper, NULL, 0);
	}
	ok(fuse_device_close(&device), "nor a folder");
}

/* --- Failing steps ------------------------------------------------------------------------------------------- */

static bool start_fails(struct fuse_device *device, int error, const char *what)
{
	struct traces before = count_traces(device->folder);
	int status = fuse_device_start(device, 2, 0);
	bool good = status == error && traces_vanish(before, device->folder);

	if (status == 0)
		frontend_fuse.remove(device->frontend);
	return ok(good, "%s: no device, and no trace (%s)", what, strerror(-status));
}

/* Descriptors run out at each step in turn. */
static void test_descriptors(void)
{
	struct fuse_device device;
	struct rlimit before, limit;
	struct traces traces;
	unsigned failed = 0, traced = 0, from;
	int status = -1;

	fuse_device_open(&device, BYTES, NULL);
	traces = count_traces(device.folder);
	getrlimit(RLIMIT_NOFILE, &before);
	/* Those of entries() and of opendir() for it are more than there will be. */
	from = traces.fds - 3;
	for (unsigned room = 0; room < 64 && status < 0; room++) {
		limit = (struct rlimit){.rlim_cur = from + room, .rlim_max = before.rlim_max};
		setrlimit(RLIMIT_NOFILE, &limit);
		status = fuse_device_start(&device, 2, 0);
		setrlimit(RLIMIT_NOFILE, &before);
		failed += status < 0;
		traced += status < 0 && !traces_vanish(traces, device.folder);
	}
	ok(status == 0 && failed > 8, "of the first %u descriptors each is one that a start needs", failed);
	ok(traced == 0, "%u of the starts without it left a trace", traced);
	if (status == 0)
		frontend_fuse.remove(device.frontend);
	ok(traces_vanish(traces, device.folder), "the one that had enough left none either");
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

static void test_steps(void)
{
	struct fuse_device device;
	struct store_ops ops;
	char path[80];

	fuse_device_open(&device, BYTES, NULL);
	real_ops = device.memory->ops;
	ops = *real_ops;
	device.memory->ops = &ops;
	ops.queue_open = open_some_queues;
	start_fails(&device, -ECONNREFUSED, "the store gives the first queue nothing");
	opened_queues = 0;
	good_queues = 1;
	start_fails(&device, -ECONNREFUSED, "the store gives the second queue nothing");
	ops = *real_ops;
	ops.register_buffer = refuse_memory;
	start_fails(&device, -EPERM, "the store takes no memory");
	device.memory->ops = real_ops;
	snprintf(path, sizeof path, "%s/fuse", device.folder);
	mkdir(path, 0700);
	start_fails(&device, -EEXIST, "the folder is there already");
	rmdir(path);
	rmdir(device.folder);
	start_fails(&device, -ENOENT, "there is no folder for it");
	mkdir(device.folder, 0700);
	ok(fuse_device_start(&device, 2, 0) == 0 && frontend_fuse.remove(device.frontend) == 0,
	   "when nothing fails there is one");
	fuse_device_close(&device);
}

/* --- Many ---------------------------------------------------------------------------------------------------- */

static void test_cycles(void)
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
	ok(failed == 0, "two devices at a time, %u times", CYCLES);
	ok(traces_vanish(before, device.folder), "nothing has grown");
	ok(fuse_device_close(&device) && fuse_device_close(&other), "and nothing is left");
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
	/* These fork, and there are no threads yet. */
	test_probe();
	test_dead();
	/* With the first thread a sanitizer starts one of its own, which stays. */
	pthread_create(&first, NULL, do_nothing, NULL);
	pthread_join(first, NULL);
	test_descriptors();
	test_steps();
	test_cycles();
	test_namespaces();
	return tap_done();
}
