/* run_device: see run_device.h. */
#include "cli/run/run_device.h"

#include "cli/disk/disk_daemon.h"
#include "cli/swap/swap_space.h"
#include "cli/swap/swaps.h"
#include "common/log.h"
#include "common/size.h"
#include "common/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

/* The largest device without --far. It is limited because the kernel needs about 1 MiB for each GiB of swap space,
   even if the space is not used. */
#define DEVICE_MAX (UINT64_C(64) << 30)
#define SECTORS_PAGE 8

static struct run_transfers read_transfers(const char *path)
{
	char file[128], text[256];
	unsigned long long sectors_in = 0, sectors_out = 0;
	const char *name = strrchr(path, '/');

	snprintf(file, sizeof file, "/sys/block%s/stat", name ? name : "");
	if (text_file_read(file, text, sizeof text) > 0)
		sscanf(text, "%*s %*s %llu %*s %*s %*s %llu", &sectors_in, &sectors_out);
	return (struct run_transfers){sectors_in / SECTORS_PAGE, sectors_out / SECTORS_PAGE};
}

/* --- A device made for the run ---------------------------------------------------------------------------------- */

static void copy_lines(int from)
{
	char text[4096];
	ssize_t got;

	lseek(from, 0, SEEK_SET);
	while ((got = read(from, text, sizeof text)) > 0)
		if (write(STDERR_FILENO, text, (size_t)got) < 0)
			break;
}

/* Makes the swap space. Shows the lines of the starting daemon only after a failure. Returns 0 or -errno. */
static int attach(const struct settings *settings, char ret_path[FRONTEND_PATH_MAX])
{
	int kept = dup(STDERR_FILENO), lines = memfd_create("farpage-daemon", MFD_CLOEXEC);
	bool apart = kept >= 0 && lines >= 0 && dup2(lines, STDERR_FILENO) >= 0;
	int status = swap_space_attach(settings, SWAP_FLAG_PRIO_MASK, ret_path);

	if (apart) {
		dup2(kept, STDERR_FILENO);
		if (status)
			copy_lines(lines);
	}
	if (kept >= 0)
		close(kept);
	if (lines >= 0)
		close(lines);
	return status;
}

int run_device_make(const struct run_options *options, const struct run_donors *donors, const char *name,
		    struct run_device *ret_device)
{
	static struct settings settings;

	settings_defaults(&settings);
	settings.name = name;
	settings.swap = true;
	settings.donors = options->donors;
	settings.donors_file = options->donors_file;
	settings.key_file = options->key_file;
	settings.backup = options->backup;
	settings.replicas = options->replicas;
	settings.scrub_rate = options->scrub_rate;
	settings.encrypt = options->encrypt;
	settings.size = options->far ? options->far : donors->free_bytes;
	if (!options->far && settings.size > DEVICE_MAX)
		settings.size = DEVICE_MAX;
	settings.size -= settings.size % STORE_PAGE;
	/* Without --far the size is the donors' free memory. The daemon must accept this size even if other clients
	   lease some of this memory meanwhile. */
	settings.overcommit = !options->far;
	if (options->timeout_ms)
		settings.timeout_ms = options->timeout_ms;
	if (options->spin_us)
		settings.spin_us = options->spin_us;
	*ret_device = (struct run_device){.size = settings.size};
	int status = settings_check(&settings);
	if (!status)
		status = attach(&settings, ret_device->path);
	if (!status)
		ret_device->before = read_transfers(ret_device->path);
	return status;
}

void run_device_taken(const char *path, uint64_t size, struct run_device *ret_device)
{
	*ret_device = (struct run_device){.size = size};
	snprintf(ret_device->path, sizeof ret_device->path, "%s", path);
	ret_device->before = read_transfers(path);
}

/* --- A device of `farpage swap on` ------------------------------------------------------------------------------ */

static bool is_for_a_run(const char *name)
{
	int pid, end = 0;
	unsigned number;

	return sscanf(name, RUN_DEVICE_NAME "%n", &pid, &number, &end) == 2 && end && !name[end];
}

/* Returns the first option of the run that the device does not satisfy, or NULL if it satisfies all. */
static const char *lacking(const struct run_options *options, const struct settings *kept, const struct swap_area *area)
{
	if (options->encrypt && !kept->encrypt)
		return "it does not encrypt, and --encrypt is given";
	if (options->backup && !kept->backup)
		return "it has no backup, and --backup is given";
	if (options->replicas > kept->replicas)
		return "it keeps fewer replicas than --replicas asks for";
	if (options->far > area->size - area->used)
		return "it has less room than --far asks for";
	return NULL;
}

/* Warns about swap spaces of a higher priority, which the kernel fills first. */
static void tell_preferred(const struct swap_area *area)
{
	static struct swap_area all[SWAPS_MAX];
	int count = swaps_read(all, SWAPS_MAX);

	for (int i = 0; i < count; i++)
		if (all[i].priority > area->priority)
			log_warning("the kernel uses the swap space %s before %s, for its priority is higher",
				    all[i].path, area->path);
}

int run_device_find(const struct run_options *options, struct run_device *ret_device)
{
	static struct settings kept;
	static char reply[CONTROL_REPLY_MAX];
	const char *name = options->swap;
	struct runtime_device device;
	struct swap_area area;

	if (runtime_check_name(name) < 0)
		return -EINVAL;
	if (is_for_a_run(name) || runtime_read_device(name, &device) < 0 || swaps_find(device.device.path, &area) < 0) {
		log_error("--swap %s: there is no such swap space; `farpage swap list` shows them, `farpage swap on` "
			  "makes one",
			  name);
		return -ENOENT;
	}
	enum disk_state state = disk_daemon_state(name, reply);
	if (!disk_state_is_reported(state) || state == DISK_FAILED) {
		log_error("--swap %s: it is %s; `farpage disk list` tells more", name, disk_state_name(state));
		return -EIO;
	}
	if (settings_kept(name, &kept))
		return -EINVAL;
	const char *lacks = lacking(options, &kept, &area);
	if (lacks) {
		log_error("--swap %s: %s", name, lacks);
		return -EINVAL;
	}
	*ret_device = (struct run_device){.size = area.size, .lent = true};
	memcpy(ret_device->path, device.device.path, sizeof ret_device->path);
	ret_device->before = read_transfers(ret_device->path);
	if (!options->quiet)
		tell_preferred(&area);
	return 0;
}

/* --- While the command runs ------------------------------------------------------------------------------------- */

uint64_t run_device_room(struct run_device *device, uint64_t swapped)
{
	struct swap_area area;

	if (!device->lent)
		return device->size;
	if (swaps_find(device->path, &area) == 0)
		return area.size - (area.used > swapped ? area.used - swapped : 0);
	if (!device->is_gone)
		log_warning("%s is swap space no more: the command has no far memory now", device->path);
	device->is_gone = true;
	return swapped;
}

struct run_transfers run_device_moved(const struct run_device *device)
{
	struct run_transfers now = read_transfers(device->path);

	/* If the counts are smaller than before, another device has this path now. */
	if (device->is_gone || now.in < device->before.in || now.out < device->before.out)
		return (struct run_transfers){0};
	return (struct run_transfers){now.in - device->before.in, now.out - device->before.out};
}
