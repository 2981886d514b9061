/*
 * ublk: the front end (frontend.h) for the kernel's ublk driver (ublk_abi.h).
 *
 * Theory of operation. To start, the command ADD creates the character device /dev/ublkcN. ublk.c prepares the queues,
 * which then fetch all tags (ublk_queue.h) through /dev/ublkcN. The command START creates the disk /dev/ublkbN. The
 * data of all requests is in one arena, which is registered with the store once. Each tag has request_bytes of the
 * arena.
 *
 * To adopt an existing device, ublk.c sends START_RECOVERY, lets the queues fetch all tags, and sends END_RECOVERY. If
 * this process dies between START_RECOVERY and END_RECOVERY, the device may be lost. So this time must be short.
 * Therefore ublk.c prepares the queues before START_RECOVERY, because they may have to wait for donors.
 *
 * To remove, ublk.c first opens the disk exclusively, so that nobody can mount the disk. STOP waits for the requests in
 * progress and ends the commands of all tags. DELETE waits until all users have closed /dev/ublkcN, so ublk.c closes
 * its queues and /dev/ublkcN before DELETE.
 *
 * A bug of Linux before 6.16: if a server dies during an adoption, when only some queues have fetched their tags,
 * the next START_RECOVERY crashes the kernel. This state lasts some microseconds. During that time the device's folder
 * has a file `fetching`. A daemon that finds this file does not adopt the device.
 *
 * Threads. See frontend.h, and ublk_queue.h for the queues' threads.
 */
#include "blockdev/frontend.h"
#include "blockdev/ublk/ublk_control.h"
#include "blockdev/ublk/ublk_device.h"
#include "blockdev/ublk/ublk_queue.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define QUEUES_MAX 16u
#define QUEUES_DEFAULT 4u
#define DEPTH_DEFAULT 64u
#define DEPTH_LEAST 8u
#define REQUEST_DEFAULT (128u << 10)
#define REQUEST_MAX (STORE_RUN_MAX * STORE_PAGE)
/* Largest arena, if the geometry is not given. */
#define ARENA_DEFAULT (16u << 20)
#define ARENA_ALIGN (2u << 20) /* a huge page */
#define PAGE_SHIFT 12
/* Most bytes of one discard. The kernel splits longer discards, so that other requests are served in between. */
#define DISCARD_BYTES (128u << 20)
/* The kernel needs up to this time to notice that the old server has ended. The value exceeds the default timeout of
   requests (30 s), in case somebody has undone ublk_device_tune(). */
#define QUIESCE_NS 40000000000ull
/* How long to wait for a living server, which may be about to end. */
#define SERVED_NS 1000000000ull
#define LOOK_NS 1000000
#define FETCHING_PATH_MAX 256

struct ublk {
	struct frontend base;
	char name[64];
	char fetching[FETCHING_PATH_MAX]; /* path of the file `fetching`, or "" if it is not needed */
	struct disk *disk;
	struct ublk_control *control;
	struct ublk_info info; /* valid once the device was added or found */
	bool added;            /* this process created the device, so a failed start deletes it */
	int fd;                /* descriptor of /dev/ublkcN */
	char *arena;
	size_t arena_bytes;
	struct store_buffer *buffer;
	unsigned queue_count;
	struct ublk_queue *queues[QUEUES_MAX];
};

static int ublk_fail(const struct ublk *ublk, const char *what, int status)
{
	log_error("%s: %s: %s", ublk->name, what, strerror(-status));
	return status;
}

/* --- Parts ----------------------------------------------------------------------------------------------- */

/* Maps the arena, aligned to a huge page, and touches it. */
static int arena_open(struct ublk *ublk)
{
	size_t bytes = (size_t)ublk->info.queues * ublk->info.depth * ublk->info.request_bytes;
	char *mapping;
	uintptr_t begin;
	int status;

	bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	mapping = mmap(NULL, bytes + ARENA_ALIGN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return ublk_fail(ublk, "no address space for its requests' data", -errno);
	begin = ((uintptr_t)mapping + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	if (begin > (uintptr_t)mapping)
		munmap(mapping, begin - (uintptr_t)mapping);
	if ((uintptr_t)mapping + ARENA_ALIGN > begin)
		munmap((char *)begin + bytes, (uintptr_t)mapping + ARENA_ALIGN - begin);
	ublk->arena = (char *)begin;
	ublk->arena_bytes = bytes;
	if (mprotect(ublk->arena, bytes, PROT_READ | PROT_WRITE) < 0)
		return ublk_fail(ublk, "no memory for its requests' data", -errno);
	madvise(ublk->arena, bytes, MADV_HUGEPAGE);
	memset(ublk->arena, 0, bytes);
	status = store_register(disk_store(ublk->disk), ublk->arena, bytes, &ublk->buffer);
	if (status < 0)
		return ublk_fail(ublk, "its requests' data cannot be registered with the donors' network", status);
	return 0;
}

static void arena_close(struct ublk *ublk)
{
	if (ublk->buffer)
		store_deregister(disk_store(ublk->disk), ublk->buffer);
	if (ublk->arena)
		munmap(ublk->arena, ublk->arena_bytes);
}

static int queues_prepare(struct ublk *ublk, const struct frontend_config *config)
{
	size_t queue_bytes = (size_t)ublk->info.depth * ublk->info.request_bytes;

	for (unsigned i = 0; i < ublk->info.queues; i++) {
		struct ublk_queue_config queue = {.name = ublk->name,
						  .index = i,
						  .depth = ublk->info.depth,
						  .request_bytes = ublk->info.request_bytes,
						  .spin_us = config->spin_us,
						  .legacy = ublk_control_is_legacy(ublk->control),
						  .disk = ublk->disk,
						  .data = ublk->arena + i * queue_bytes,
						  .buffer = ublk->buffer};
		int status = ublk_queue_prepare(&queue, &ublk->queues[i]);

		if (status < 0)
			return status;
		ublk->queue_count++;
	}
	return 0;
}

/* Creates or removes the file `fetching`. */
static void fetching_note(const struct ublk *ublk, bool fetching)
{
	int fd;

	if (!ublk->fetching[0])
		return;
	if (!fetching) {
		unlink(ublk->fetching);
		return;
	}
	fd = open(ublk->fetching, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static int queues_serve(struct ublk *ublk)
{
	int status = ublk_device_open(ublk->info.number, &ublk->fd);

	if (status < 0)
		return ublk_fail(ublk, "its /dev/ublkc cannot be opened (is /dev a devtmpfs, here?)", status);
	fetching_note(ublk, true);
	for (unsigned i = 0; i < ublk->queue_count; i++)
		ublk_queue_serve(ublk->queues[i], ublk->fd);
	for (unsigned i = 0; i < ublk->queue_count && status == 0; i++)
		status = ublk_queue_wait_served(ublk->queues[i]);
	if (status == 0)
		fetching_note(ublk, false);
	return status;
}

static void server_close(struct ublk *ublk)
{
	for (unsigned i = 0; i < ublk->queue_count; i++)
		ublk_queue_end(ublk->queues[i]);
	ublk->queue_count = 0;
	if (ublk->fd >= 0)
		close(ublk->fd);
	ublk->fd = -1;
}

static void ublk_free(struct ublk *ublk)
{
	server_close(ublk);
	if (ublk->added)
		ublk_control_delete(ublk->control, ublk->info.number);
	arena_close(ublk);
	ublk_control_close(ublk->control);
	free(ublk);
}

/* Allocates a struct without a device, and opens a control. */
static int ublk_new(const struct frontend_config *config, struct disk *disk, struct ublk **ret_ublk)
{
	struct ublk *ublk = calloc(1, sizeof *ublk);
	char why[UBLK_WHY_MAX];
	int status;

	if (!ublk)
		return -ENOMEM;
	ublk->base.ops = &frontend_ublk;
	ublk->disk = disk;
	ublk->fd = -1;
	snprintf(ublk->name, sizeof ublk->name, "%s", config->name);
	status = ublk_control_open(&ublk->control, why);
	if (status < 0) {
		log_error("%s: %s", ublk->name, why);
		free(ublk);
		return status;
	}
	*ret_ublk = ublk;
	return 0;
}

/* Completes a start or an adoption. Closes the control, because it is rarely needed later. */
static void ublk_started(struct ublk *ublk, struct frontend **ret_frontend)
{
	ublk_control_close(ublk->control);
	ublk->control = NULL;
	ublk->added = false;
	*ret_frontend = &ublk->base;
}

/* --- Start ----------------------------------------------------------------------------------------------- */

static void geometry_choose(const struct frontend_config *config, struct ublk_info *ret_info)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned queues = config->queues, depth = config->depth ? config->depth : DEPTH_DEFAULT;
	uint32_t bytes = config->request_bytes;

	if (!queues)
		queues = processors > 0 && (unsigned long)processors < QUEUES_DEFAULT ? (unsigned)processors
										      : QUEUES_DEFAULT;
	if (queues > QUEUES_MAX)
		queues = QUEUES_MAX;
	if (depth < DEPTH_LEAST)
		depth = DEPTH_LEAST;
	if (depth > UBLK_DEPTH_MAX)
		depth = UBLK_DEPTH_MAX;
	if (!bytes)
		for (bytes = REQUEST_DEFAULT; bytes > STORE_PAGE && (uint64_t)bytes * depth * queues > ARENA_DEFAULT;)
			bytes /= 2;
	bytes = bytes / STORE_PAGE * STORE_PAGE;
	if (bytes < STORE_PAGE)
		bytes = STORE_PAGE;
	if (bytes > REQUEST_MAX)
		bytes = REQUEST_MAX;
	*ret_info = (struct ublk_info){.queues = (uint16_t)queues,
				       .depth = (uint16_t)depth,
				       .request_bytes = bytes,
				       .flags = UBLK_USER_RECOVERY | UBLK_USER_RECOVERY_REISSUE};
}

static void parameters_fill(const struct ublk *ublk, struct ublk_parameters *ret_parameters)
{
	*ret_parameters = (struct ublk_parameters){
	    .types = UBLK_PARAMETERS_BASIC | UBLK_PARAMETERS_DISCARD,
	    .basic = {.logical_shift = PAGE_SHIFT,
		      .physical_shift = PAGE_SHIFT,
		      .optimal_shift = PAGE_SHIFT,
		      .minimum_shift = PAGE_SHIFT,
		      .max_sectors = ublk->info.request_bytes / DISK_SECTOR,
		      .sectors = disk_bytes(ublk->disk) / DISK_SECTOR},
	    .discard = {.granularity = STORE_PAGE,
			.max_sectors = DISCARD_BYTES / DISK_SECTOR,
			.max_zero_sectors = DISCARD_BYTES / DISK_SECTOR,
			.max_segments = 1},
	};
}

static void device_fill(const struct ublk *ublk, struct frontend_device *ret_device)
{
	ret_device->number = (int32_t)ublk->info.number;
	ublk_device_path(ublk->info.number, ret_device->path, sizeof ret_device->path);
}

static int device_add(struct ublk *ublk, const struct frontend_config *config)
{
	struct ublk_parameters parameters;
	struct frontend_device device;
	int status;

	geometry_choose(config, &ublk->info);
	status = ublk_control_add(ublk->control, &ublk->info);
	if (status < 0)
		return ublk_fail(ublk, "the kernel makes no ublk device", status);
	ublk->added = true;
	if (config->made) {
		device_fill(ublk, &device);
		config->made(config->user, &device);
	}
	if (!(ublk->info.flags & UBLK_USER_RECOVERY) || !(ublk->info.flags & UBLK_USER_RECOVERY_REISSUE)) {
		log_error(
		    "%s: this kernel's ublk devices die with their daemon; use Linux 6.1 or newer, or --frontend fuse",
		    ublk->name);
		return -EOPNOTSUPP;
	}
	parameters_fill(ublk, &parameters);
	status = ublk_control_set_parameters(ublk->control, ublk->info.number, &parameters);
	return status < 0 ? ublk_fail(ublk, "the kernel refuses the parameters of the ublk device", status) : 0;
}

static int device_start(struct ublk *ublk)
{
	int status = ublk_control_start(ublk->control, ublk->info.number);

	if (status < 0)
		return ublk_fail(ublk, "the ublk device does not start", status);
	status = ublk_device_wait(ublk->info.number);
	if (status < 0)
		ublk_fail(ublk, "its /dev/ublkb does not appear (is /dev a devtmpfs, here?)", status);
	return status;
}

static int ublk_start(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	struct ublk *ublk;
	int status = ublk_new(config, disk, &ublk);

	if (status < 0)
		return status;
	status = device_add(ublk, config);
	if (status == 0)
		status = arena_open(ublk);
	if (status == 0)
		status = queues_prepare(ublk, config);
	if (status == 0)
		status = queues_serve(ublk);
	if (status == 0)
		status = device_start(ublk);
	if (status < 0) {
		if (ublk->added)
			ublk_control_stop(ublk->control, ublk->info.number);
		ublk_free(ublk);
		return status;
	}
	ublk_device_tune(ublk->info.number, ublk->info.depth);
	ublk_started(ublk, ret_frontend);
	return 0;
}

/* --- Adopt ----------------------------------------------------------------------------------------------- */

/* Returns true if the process lives. If its main thread has ended, its other threads are ending, too. */
static bool process_lives(int pid)
{
	struct process process;

	return process_look(pid, &process) == 0 && !process.ended;
}

/* Waits until the device has no server. Returns 0, -EBUSY if the device still has a server, or another -errno. */
static int device_wait_quiesced(struct ublk_control *control, uint32_t number, struct ublk_info *ret_info)
{
	uint64_t begin = clock_now();
	int status;

	for (;;) {
		status = ublk_control_info(control, number, ret_info);
		if (status < 0 || ret_info->state != UBLK_LIVE)
			return status;
		/* A living server may be about to end, so it gets SERVED_NS. If the server is dead, the kernel needs up
		   to QUIESCE_NS to notice. */
		bool served =
		    ret_info->server_pid > 0 && ret_info->server_pid != getpid() && process_lives(ret_info->server_pid);
		if (clock_now() - begin > (served ? SERVED_NS : QUIESCE_NS))
			return -EBUSY;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
}

static int device_find(struct ublk *ublk, uint32_t number)
{
	struct ublk_parameters parameters;
	int status = device_wait_quiesced(ublk->control, number, &ublk->info);

	if (status == -ENODEV) {
		log_error("%s: there is no ublk device %u any more; attach anew", ublk->name, number);
		return status;
	}
	if (status == -EBUSY && !process_lives(ublk->info.server_pid)) {
		log_error("%s: the kernel still waits for the daemon of ublk device %u, which has ended; try again",
			  ublk->name, number);
		return status;
	}
	if (status == -EBUSY) {
		log_error("%s: ublk device %u is served by process %d; detach it there first", ublk->name, number,
			  ublk->info.server_pid);
		return status;
	}
	if (status < 0)
		return ublk_fail(ublk, "the kernel does not tell about its ublk device", status);
	if (ublk->info.state != UBLK_QUIESCED || !(ublk->info.flags & UBLK_USER_RECOVERY_REISSUE)) {
		log_error("%s: ublk device %u cannot be adopted (state %u, flags %#llx); detach it", ublk->name, number,
			  ublk->info.state, (unsigned long long)ublk->info.flags);
		return -EINVAL;
	}
	status = ublk_control_get_parameters(ublk->control, number, &parameters);
	if (status < 0)
		return ublk_fail(ublk, "the kernel does not tell about its ublk device", status);
	if (parameters.basic.sectors != disk_bytes(ublk->disk) / DISK_SECTOR || ublk->info.queues > QUEUES_MAX ||
	    ublk->info.request_bytes > REQUEST_MAX) {
		log_error("%s: ublk device %u has %llu bytes and not %llu: it is another one", ublk->name, number,
			  (unsigned long long)parameters.basic.sectors * DISK_SECTOR,
			  (unsigned long long)disk_bytes(ublk->disk));
		return -EINVAL;
	}
	return 0;
}

/* Returns 0, or -ENOTRECOVERABLE if an adoption would crash the kernel (see above). */
static int device_check(struct ublk *ublk, const char *folder)
{
	if (ublk->info.queues == 1 || !folder || ublk_control_features(ublk->control) & UBLK_PER_IO_DAEMON)
		return 0;
	snprintf(ublk->fetching, sizeof ublk->fetching, "%s/fetching", folder);
	if (access(ublk->fetching, F_OK) < 0)
		return 0;
	log_error(
	    "%s: a daemon died while it was adopting ublk device %u, and kernels before 6.16 cannot hand it over after "
	    "that; detach it",
	    ublk->name, ublk->info.number);
	ublk->fetching[0] = '\0';
	return -ENOTRECOVERABLE;
}

/* Begins the recovery. While the kernel has not yet released the dead server's rings, it answers EBUSY, and this
   function tries again. */
static int recovery_start(struct ublk *ublk)
{
	uint64_t deadline = clock_now() + QUIESCE_NS;
	int status;

	while ((status = ublk_control_start_recovery(ublk->control, ublk->info.number)) == -EBUSY &&
	       clock_now() < deadline)
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	/* From Linux 6.11 on, EINVAL means that the last server died after it had begun the recovery, but before it
	   fetched a tag. This process then continues that recovery. */
	if (status == -EINVAL)
		status = 0;
	return status < 0 ? ublk_fail(ublk, "the kernel does not hand its ublk device over", status) : 0;
}

static int ublk_adopt(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	struct ublk *ublk;
	int status = ublk_new(config, disk, &ublk);

	if (status < 0)
		return status;
	status = device_find(ublk, (uint32_t)config->number);
	if (status == 0)
		status = device_check(ublk, config->folder);
	if (status == 0)
		status = arena_open(ublk);
	if (status == 0)
		status = queues_prepare(ublk, config);
	if (status == 0)
		status = recovery_start(ublk);
	if (status == 0)
		status = queues_serve(ublk);
	if (status == 0) {
		status = ublk_control_end_recovery(ublk->control, ublk->info.number);
		if (status < 0)
			ublk_fail(ublk, "the ublk device does not continue", status);
	}
	if (status < 0) {
		ublk_free(ublk);
		return status;
	}
	ublk_started(ublk, ret_frontend);
	return 0;
}

/* --- Other operations ------------------------------------------------------------------------------------ */

static int ublk_probe(char ret_why[256])
{
	struct ublk_control *control;
	int status = ublk_control_open(&control, ret_why);

	if (status < 0)
		return status;
	/* If the kernel does not report its features, device_add() checks them on the new device. */
	if (!ublk_control_is_legacy(control) && !(ublk_control_features(control) & UBLK_USER_RECOVERY_REISSUE)) {
		snprintf(ret_why, UBLK_WHY_MAX, "this kernel's ublk has no USER_RECOVERY_REISSUE; Linux 6.1 has");
		status = -EOPNOTSUPP;
	}
	ublk_control_close(control);
	return status;
}

static void ublk_get_device(const struct frontend *frontend, struct frontend_device *ret_device)
{
	device_fill((const struct ublk *)frontend, ret_device);
}

static int ublk_remove(struct frontend *frontend)
{
	struct ublk *ublk = (struct ublk *)frontend;
	uint32_t number = ublk->info.number;
	char why[UBLK_WHY_MAX];
	int held = -1, status;

	status = ublk_control_open(&ublk->control, why);
	if (status < 0) {
		log_error("%s: %s", ublk->name, why);
		return status;
	}
	status = ublk_device_hold(number, &held);
	if (status < 0 && status != -ENOENT) {
		ublk_control_close(ublk->control);
		ublk->control = NULL;
		return status;
	}
	status = ublk_control_stop(ublk->control, number);
	if (held >= 0)
		close(held);
	server_close(ublk);
	if (status == 0)
		status = ublk_control_delete(ublk->control, number);
	if (status < 0 && status != -ENODEV)
		log_warning("%s: ublk device %u is not gone yet: %s", ublk->name, number, strerror(-status));
	ublk_free(ublk);
	return 0;
}

static void ublk_leave(struct frontend *frontend)
{
	ublk_free((struct ublk *)frontend);
}

static int ublk_clear(int32_t number)
{
	struct ublk_control *control;
	struct ublk_info info;
	char why[UBLK_WHY_MAX];
	int held = -1, status;

	status = ublk_control_open(&control, why);
	if (status < 0) {
		log_error("%s", why);
		return status;
	}
	status = device_wait_quiesced(control, (uint32_t)number, &info);
	if (status == 0) {
		status = ublk_device_hold((uint32_t)number, &held);
		status = status == -ENOENT ? 0 : status;
	}
	if (status == 0)
		status = ublk_control_stop(control, (uint32_t)number);
	if (held >= 0)
		close(held);
	if (status == 0)
		status = ublk_control_delete(control, (uint32_t)number);
	ublk_control_close(control);
	return status == -ENODEV ? -ENOENT : status;
}

const struct frontend_ops frontend_ublk = {
    .name = "ublk",
    .adopts = true,
    .probe = ublk_probe,
    .start = ublk_start,
    .adopt = ublk_adopt,
    .device = ublk_get_device,
    .remove = ublk_remove,
    .leave = ublk_leave,
    .clear = ublk_clear,
};
