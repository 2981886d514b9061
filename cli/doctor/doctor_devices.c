/*
 * doctor_devices: checks the front ends of farpage's block devices: ublk, or a FUSE file under a loop device. Also
 * checks the devices that exist on this host: each should have a daemon, and the daemon should have taken all steps
 * for safety (blockdev/host/safety.h). The facts about devices are in /run/farpage (blockdev/daemon/runtime.h), which
 * only root can read.
 */
#include "cli/doctor/internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>

#define UBLK_CONTROL "/dev/ublk-control"
#define ANSWER_MS 1000

static bool is_absent(int error)
{
	return error == -ENOENT || error == -ENXIO || error == -ENODEV;
}

static bool ublk_is_usable(const struct host *host)
{
	return !host->devices.ublk && !host->kernel.ring && host_may(host, CAP_SYS_ADMIN);
}

const struct frontend_ops *doctor_devices_frontend(const struct host *host)
{
	if (ublk_is_usable(host))
		return &frontend_ublk;
	return !host->devices.fuse && !host->devices.loop && host_may(host, CAP_SYS_ADMIN) ? &frontend_fuse : NULL;
}

uint64_t doctor_devices_flight_kib(const struct host *host)
{
	const struct frontend_ops *ops = doctor_devices_frontend(host);

	return ops ? frontends_flight_kib(ops, 0, 0) : 0;
}

struct verdict doctor_devices_ublk(const struct host *host)
{
	enum verdict_status lacking = host->swap ? WARN : SKIP; /* only swap devices need ublk */
	int error = host->devices.ublk;

	if (is_absent(error) && host->devices.ublk_at_hand)
		return verdict_of(
		    lacking,
		    "its module is not loaded\n"
		    "as root: modprobe ublk_drv (at every boot: echo ublk_drv > /etc/modules-load.d/farpage.conf)");
	if (is_absent(error))
		return verdict_of(lacking,
				  "this kernel has none (no " UBLK_CONTROL ")\n"
				  "a kernel of Linux 6.1 or newer with CONFIG_BLK_DEV_UBLK (Debian 12: "
				  "linux-image-amd64 of bookworm-backports); containers must be given " UBLK_CONTROL);
	if (error || !host_may(host, CAP_SYS_ADMIN))
		return verdict_of(lacking,
				  UBLK_CONTROL
				  ": %s\n"
				  "run farpage as root (CAP_SYS_ADMIN); containers must be given " UBLK_CONTROL,
				  strerror(error ? -error : EPERM));
	if (host->kernel.ring)
		return verdict_of(lacking,
				  "cannot be used without io_uring: %s\nas root: sysctl kernel.io_uring_disabled=0",
				  strerror(-host->kernel.ring));
	if (!host->devices.ublk_recovers)
		return WARN("can be used, but devices end with their daemon\n"
			    "a kernel of Linux 6.1 or newer");
	return PASS("can be used, and devices outlive their daemon");
}

struct verdict doctor_devices_fuse(const struct host *host)
{
	bool no_fuse = host->devices.fuse, ublk = ublk_is_usable(host);
	int error = no_fuse ? host->devices.fuse : host->devices.loop;
	const char *device = no_fuse ? "/dev/fuse" : "/dev/loop-control";
	enum verdict_status lacking = host->swap && !ublk ? WARN : SKIP;

	if (is_absent(error) && (no_fuse ? host->devices.fuse_at_hand : host->devices.loop_at_hand))
		return verdict_of(lacking, "no %s\nas root: modprobe %s", device, no_fuse ? "fuse" : "loop");
	if (is_absent(error))
		return verdict_of(lacking, "no %s\na kernel with CONFIG_%s; containers must be given %s", device,
				  no_fuse ? "FUSE_FS" : "BLK_DEV_LOOP", device);
	if (error || !host_may(host, CAP_SYS_ADMIN))
		return verdict_of(lacking,
				  "%s: %s\n"
				  "run farpage as root (CAP_SYS_ADMIN); containers must be given the device",
				  device, strerror(error ? -error : EPERM));
	return PASS(ublk ? "can be used, but is not needed, because ublk works"
			 : "can be used: devices are slower than ublk's, and lost with their daemon");
}

static struct verdict judge_unserved(const struct left *left)
{
	const char *path = left->path, *use = left->use ? left->use : "";

	if (!path)
		return WARN("its daemon ended before there was a device\nfarpage disk detach %s", left->name);
	if (left->adoptable)
		return WARN("its daemon has ended; %s waits for another%s%s\n"
			    "farpage disk adopt %s, to go on with it; or end what uses it, then farpage disk detach %s",
			    path, *use ? ", and in use: " : "", use, left->name, left->name);
	return WARN("its daemon has ended, and the contents of %s are lost%s%s\n%sfarpage disk detach %s", path,
		    *use ? "; in use: " : "", use, *use ? "end what uses it, then " : "", left->name);
}

struct verdict doctor_devices_left(const struct host *host)
{
	const struct left *left = &host->left;
	const char *path = left->path ? left->path : "it";

	if (!left->served)
		return judge_unserved(left);
	if (!left->answers)
		return WARN("its daemon runs, but does not answer; it may be starting, or waiting for a donor");
	if (*left->missing)
		return WARN("%s is served, but these safety steps are missing: %s\nsee \"rights of the daemon\"", path,
			    left->missing);
	return PASS("%s is served%s%s", path, left->use ? ": " : "", left->use ? left->use : "");
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Returns true if opening a device file has failed with @error, although its kernel module @name is installed. */
static bool module_is_at_hand(const struct host *host, int error, const char *name)
{
	char path[PATH_MAX], pattern[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof path, "/lib/modules/%s/modules.dep", host->kernel.release);
	snprintf(pattern, sizeof pattern, "/%s.ko", name);
	file = error ? fopen(path, "re") : NULL;
	while (file && !found && fgets(line, sizeof line, file)) {
		line[strcspn(line, ":")] = '\0';
		found = strstr(line, pattern) != NULL;
	}
	if (file)
		fclose(file);
	return found;
}

/* Returns true if ublk has user recovery, with which a device survives its daemon. */
static bool ublk_recovers(const struct host *host)
{
	int recovers = host->devices.ublk ? 0 : ublk_control_recovers();

	return recovers == -ENODATA ? facts_release_is(host->kernel.release, 6, 1) : recovers > 0;
}

void doctor_devices_read(struct host *host)
{
	int count = geteuid() ? 0 : runtime_list(host->devices.left, LEFT_MAX);

	host->devices.left_count = count > 0 ? (unsigned)count : 0;
	host->devices.ublk = facts_open("/dev/ublk-control");
	host->devices.fuse = facts_open("/dev/fuse");
	host->devices.loop = facts_open("/dev/loop-control");
	host->devices.ublk_at_hand = module_is_at_hand(host, host->devices.ublk, "ublk_drv");
	host->devices.fuse_at_hand = module_is_at_hand(host, host->devices.fuse, "fuse");
	host->devices.loop_at_hand = module_is_at_hand(host, host->devices.loop, "loop");
	host->devices.ublk_recovers = ublk_recovers(host);
}

/* Writes the names of the safety steps that the daemon has not taken, from "safety" in its status (status.h). */
static void missing_read(struct json_object *status, char *text, size_t size)
{
	struct json_object *safety;
	size_t used = 0;

	if (!json_object_object_get_ex(status, "safety", &safety))
		return;
	json_object_object_foreach(safety, name, taken)
	{
		if (!json_object_get_boolean(taken) && used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
	}
}

bool doctor_devices_each_left(struct host *host, unsigned index)
{
	static char reply[CONTROL_REPLY_MAX], use[USE_TEXT_MAX];
	static struct runtime_device device;
	struct json_object *status = NULL;
	const char *name;

	if (index >= host->devices.left_count)
		return false;
	name = host->devices.left[index];
	snprintf(host->subject, sizeof host->subject, "%s", name);
	host->left = (struct left){.name = name, .served = runtime_is_served(name)};
	if (!runtime_read_device(name, &device)) {
		host->left.path = device.device.path;
		host->left.use = use_find(device.device.path, use) ? use : NULL;
		host->left.adoptable = frontends_adopts(device.frontend);
	}
	if (host->left.served && control_ask(name, CONTROL_STATUS, ANSWER_MS, reply) >= 0)
		status = json_tokener_parse(reply);
	host->left.answers = status != NULL;
	if (status)
		missing_read(status, host->left.missing, sizeof host->left.missing);
	json_object_put(status);
	return true;
}
