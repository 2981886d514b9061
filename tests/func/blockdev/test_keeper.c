/*
 * The keeper and its workers. The store is over a real donor that wants a key. The front end is a fake that claims to
 * have a device which outlives its daemon, so this test also runs where the kernel has no ublk.
 */
#include "blockdev/daemon/control.h"
#include "blockdev/daemon/keeper.h"
#include "blockdev/daemon/runtime.h"
#include "blockdev/frontends.h"
#include "common/clock.h"
#include "tests/func/client/rig.h"
#include "tests/lib/folder.h"
#include "wire/auth.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "kept"
#define NUMBER 7
#define BYTES (4u << 20)

/* Shared with the worker: orders to the front end, and counts of its calls. */
static struct fake {
	atomic_bool dies;  /* the worker dies when its device exists but is not ready */
	atomic_bool fails; /* the start fails before the device is ready, and the front end removes the device */
	atomic_bool holds; /* the front end cannot leave the device, as if requests were in flight */
	atomic_bool stops; /* after an adoption, the worker cannot write to the device's folder */
	atomic_uint starts, adopts, leaves;
	atomic_int cleared; /* number of the device that clear() removed */
} * fake;

static const char *key_path;
static struct rig rig;

/* --- The front end ---------------------------------------------------------------------------------------------- */

struct frontend_fake {
	struct frontend base;
	struct disk_queue *queue;
};

static const struct frontend_ops fake_ops;

static int fake_probe(char ret_why[256])
{
	ret_why[0] = '\0';
	return 0;
}

/* Writes a page, so that the store leases a slab. */
static int page_write(struct store *store)
{
	static uint8_t page[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));
	struct rig own = {0};
	int status = store_queue_open(store, &own.queue);

	if (status < 0 || (status = store_register(store, page, sizeof page, &own.buffer)) < 0)
		return status;
	rig_fill(page, 0, 1);
	status = rig_write(&own, 0, 1, page);
	store_deregister(store, own.buffer);
	store_queue_close(own.queue);
	return status;
}

static int fake_bring_up(struct disk *disk, struct frontend **ret_frontend)
{
	struct frontend_fake *front = malloc(sizeof *front);
	int status;

	if (!front)
		return -ENOMEM;
	status = disk_queue_open(disk, 1, &front->queue);
	if (status < 0) {
		free(front);
		return status;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the worker dies with this test, also when the test crashes */
	front->base.ops = &fake_ops;
	*ret_frontend = &front->base;
	return 0;
}

static void fake_free(struct frontend *frontend)
{
	struct frontend_fake *front = (struct frontend_fake *)frontend;

	disk_queue_close(front->queue);
	free(front);
}

static void device_fill(struct frontend_device *ret_device)
{
	*ret_device = (struct frontend_device){.path = "/dev/farpage-fake", .number = NUMBER};
}

static int fake_start(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	struct frontend_device device;
	int status;

	fake->starts++;
	device_fill(&device);
	config->made(config->user, &device);
	if (fake->dies)
		raise(SIGKILL);
	if (fake->fails)
		return -EIO;
	status = page_write(disk_store(disk));
	return status < 0 ? status : fake_bring_up(disk, ret_frontend);
}

/* Returns the path of a temporary file. A folder of this name keeps the worker from writing files. */
static const char *obstacle(void)
{
	static char path[RUNTIME_PATH_MAX + 16];

	runtime_path(NAME, "next", path);
	return path;
}

static int fake_adopt(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	fake->adopts++;
	if (fake->stops && mkdir(obstacle(), 0700) < 0)
		return -errno;
	return config->number == NUMBER ? fake_bring_up(disk, ret_frontend) : -ENODEV;
}

static void fake_device(const struct frontend *frontend, struct frontend_device *ret_device)
{
	(void)frontend;
	device_fill(ret_device);
}

static int fake_remove(struct frontend *frontend)
{
	fake_free(frontend);
	return 0;
}

static void fake_leave(struct frontend *frontend)
{
	fake->leaves++;
	while (fake->holds)
		sleep_ms(1);
	fake_free(frontend);
}

static int fake_clear(int32_t number)
{
	fake->cleared = number;
	return 0;
}

static const struct frontend_ops fake_ops = {
    .name = "fake",
    .adopts = true,
    .probe = fake_probe,
    .start = fake_start,
    .adopt = fake_adopt,
    .device = fake_device,
    .remove = fake_remove,
    .leave = fake_leave,
    .clear = fake_clear,
};

const struct frontend_ops *__wrap_frontends_find(const char *name);
const struct frontend_ops *__wrap_frontends_find(const char *name)
{
	return strcmp(name, fake_ops.name) == 0 ? &fake_ops : NULL;
}

int __wrap_frontends_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX]);
int __wrap_frontends_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX])
{
	(void)name;
	*ret_note = '\0';
	*ret_ops = &fake_ops;
	return 0;
}

/* --- The daemon ------------------------------------------------------------------------------------------------- */

/* Starts a daemon with these options. Returns its process. */
static pid_t daemon_run(char **argv)
{
	struct settings settings;
	int argc = 0;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (argv[argc])
		argc++;
	if (settings_read(&settings, argc, argv) < 0)
		_exit(EXIT_FAILURE);
	_exit(keeper_run(&settings) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static pid_t daemon_attach(void)
{
	static char donor[128], key[96];
	char *argv[] = {(char[]){"daemon"},
			(char[]){"--name=" NAME},
			(char[]){"--size=4M"},
			donor,
			key,
			(char[]){"--grace=60"},
			NULL};

	snprintf(donor, sizeof donor, "--donor=%s", rig.donors[0].uri);
	snprintf(key, sizeof key, "--key=%s", key_path);
	return daemon_run(argv);
}

static int daemon_remove(void)
{
	char *argv[] = {(char[]){"daemon"}, (char[]){"--name=" NAME}, (char[]){"--remove"}, NULL};
	int status = -1;

	waitpid(daemon_run(argv), &status, 0);
	return status;
}

/* Waits for the daemon's end. Returns true if its status is 0. */
static bool daemon_ends(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool daemon_answers(void)
{
	static char reply[CONTROL_REPLY_MAX];

	return wait_until(control_ask(NAME, CONTROL_STATUS, 5000, reply) > 0);
}

/* Returns true if the donor soon says that it has @bytes leased. A donor that does not answer does not count. */
static bool leased_is(uint64_t bytes)
{
	struct far_donor_info figures;

	if (wait_until((figures = rig_figures(&rig, 0)).status == 0 && figures.leased == bytes))
		return true;
	printf("# leased: %llu\n", (unsigned long long)figures.leased);
	return false;
}

static bool folder_is_there(void)
{
	char path[RUNTIME_PATH_MAX + 16];

	return runtime_path(NAME, NULL, path) == 0 && access(path, F_OK) == 0;
}

/* --- Tests ------------------------------------------------------------------------------------------------------ */

static void an_abandoned_leave_has_another_worker_adopt(void)
{
	static char reply[CONTROL_REPLY_MAX];
	pid_t pid = daemon_attach();

	ok(daemon_answers() && fake->starts == 3, "a daemon with a device answers on its control socket");
	fake->holds = true;
	ok(control_ask(NAME, CONTROL_LEAVE, 200, reply) == -ETIMEDOUT && fake->leaves == 1,
	   "CONTROL_LEAVE times out for a caller that does not wait for the worker");
	fake->holds = false;
	ok(daemon_answers() && fake->adopts == 1 && waitpid(pid, NULL, WNOHANG) == 0,
	   "a second worker adopts the device after a leave that nobody waited for");
	ok(control_ask(NAME, CONTROL_LEAVE, 20000, reply) > 0 && strcmp(reply, "ok") == 0,
	   "CONTROL_LEAVE answers ok to a caller that waits");
	ok(daemon_ends(pid) && !runtime_is_served(NAME) && fake->adopts == 1,
	   "the daemon ends after a leave that was waited for");
	ok(folder_is_there() && leased_is(RIG_SLAB), "a device that was left keeps its folder and its lease");
}

/* The process that starts an adopting daemon may end before the daemon has adopted the device. */
static void a_device_is_adopted_without_its_starter(void)
{
	static char reply[CONTROL_REPLY_MAX], option[32];
	char *argv[] = {(char[]){"daemon"},
			(char[]){"--name=" NAME},
			(char[]){"--adopt"},
			(char[]){"--log=/dev/null"},
			option,
			NULL};
	int ready[2];
	pid_t pid;

	if (pipe(ready) < 0)
		abort();
	close(ready[0]);
	snprintf(option, sizeof option, "--ready-fd=%d", ready[1]);
	pid = daemon_run(argv);
	close(ready[1]);
	ok(daemon_answers() && control_ask(NAME, CONTROL_LEAVE, 20000, reply) > 0 && daemon_ends(pid) &&
	       folder_is_there(),
	   "a daemon adopts the device although nobody reads its ready descriptor");
}

/* The worker must leave the device before it closes the disk, whose queues the front end has open. */
static void an_adopted_device_that_cannot_be_recorded_is_left(void)
{
	char *argv[] = {(char[]){"daemon"}, (char[]){"--name=" NAME}, (char[]){"--adopt"}, NULL};
	unsigned left = fake->leaves;

	fake->stops = true;
	ok(!daemon_ends(daemon_run(argv)) && fake->leaves == left + 1,
	   "a worker that cannot record the device it has adopted leaves it");
	fake->stops = false;
	rmdir(obstacle());
	ok(folder_is_there() && leased_is(RIG_SLAB),
	   "a device that could not be recorded keeps its folder and its lease");
}

static void a_device_that_was_left_is_removed(void)
{
	fake->cleared = -1;
	ok(daemon_remove() == 0 && !folder_is_there() && fake->cleared == NUMBER,
	   "--remove removes a device that was left");
	ok(leased_is(0), "--remove with the key releases the device's slabs");
}

/* The key file is gone. The leases end later, at the end of their grace time. */
static void a_device_without_its_key_is_removed(void)
{
	pid_t pid = daemon_attach();
	static char reply[CONTROL_REPLY_MAX];
	const char *away = folder_path("away");

	ok(daemon_answers() && control_ask(NAME, CONTROL_LEAVE, 20000, reply) > 0 && daemon_ends(pid),
	   "a second device is left");
	rename(key_path, away);
	ok(daemon_remove() == 0 && !folder_is_there(), "--remove removes a device without its key file");
	rename(away, key_path);
	ok(leased_is(RIG_SLAB), "--remove without the key releases no slab");
}

/* A worker does not make its device ready. The keeper removes only the half-made device. */
static void a_half_made_device_is_removed(void)
{
	fake->cleared = -1;
	fake->dies = true;
	ok(!daemon_ends(daemon_attach()) && fake->cleared == NUMBER,
	   "the keeper removes the half-made device of a worker that died");
	ok(!folder_is_there(), "no folder is left after a worker died");
	fake->cleared = -1;
	fake->dies = false;
	fake->fails = true;
	ok(!daemon_ends(daemon_attach()) && fake->cleared == -1,
	   "the keeper does not clear a device that its failed worker has removed");
	ok(!folder_is_there(), "no folder is left after a worker failed");
	fake->fails = false;
}

/* --- The beginning and the end ---------------------------------------------------------------------------------- */

static void clean(void)
{
	char path[RUNTIME_PATH_MAX + 16];

	if (runtime_path(NAME, NULL, path) == 0) {
		umount2(path, MNT_DETACH);
		rmdir(path);
	}
}

static void donor_begin(void)
{
	static uint8_t key[AUTH_KEY_SIZE];

	rig = (struct rig){.donor_count = 1};
	rig.config = (struct far_config){.donor_count = 1, .replicas = 1, .key = key, .grace_ms = 1000};
	rig.config.fabric = FABRIC_CONFIG_DEFAULT;
	if (auth_key_create(key_path) < 0 || auth_key_load(key_path, key) < 0)
		tap_bail("no key");
	donor_start(&rig.donors[0], "--donate", "16M", "--slab", "1M", "--reserve", "1M", "--key", key_path);
}

int main(void)
{
	if (geteuid() != 0)
		return tap_skip_all("devices need root");
	fake = mmap(NULL, sizeof *fake, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fake == MAP_FAILED)
		return EXIT_FAILURE;
	setenv("FARPAGE_RUNTIME", folder(), 1);
	key_path = folder_path("key");
	atexit(clean);
	donor_begin();
	a_half_made_device_is_removed();
	an_abandoned_leave_has_another_worker_adopt();
	a_device_is_adopted_without_its_starter();
	an_adopted_device_that_cannot_be_recorded_is_left();
	a_device_that_was_left_is_removed();
	a_device_without_its_key_is_removed();
	donor_end(&rig.donors[0]);
	return tap_done();
}
