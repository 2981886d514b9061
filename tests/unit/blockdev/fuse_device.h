/* fuse_device: a FUSE block device on a store, in a folder of its own, and a count of what the device leaves on the
   machine. For the tests of blockdev/fuse/fuse.c. */
#ifndef FUSE_DEVICE_H
#define FUSE_DEVICE_H
#include "blockdev/frontend.h"
#include "blockdev/fuse/loop.h"
#include "tests/lib/entries.h"
#include "tests/lib/store_faulty.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME "tested"

struct fuse_device {
	char folder[64], file[128];
	struct store *memory, *store; /* the same store if there are no faults */
	struct disk *disk;
	struct frontend *frontend;
	struct frontend_device device;
};

#define QUEUES_MAX 4u /* most queues that these tests start */

/* Opens and closes QUEUES_MAX queues. A disk keeps the descriptors of closed queues for later queues, so afterwards the
   number of descriptors is constant. Returns 0 or -errno. */
__attribute__((unused)) static int fuse_device_settle(struct disk *disk)
{
	struct disk_queue *queues[QUEUES_MAX] = {NULL};
	int status = 0;

	for (unsigned i = 0; i < QUEUES_MAX && status == 0; i++)
		status = disk_queue_open(disk, 1, &queues[i]);
	for (unsigned i = 0; i < QUEUES_MAX; i++)
		disk_queue_close(queues[i]);
	return status;
}

/* Makes a folder, a store and a disk. Starts no device. */
__attribute__((unused)) static int fuse_device_open(struct fuse_device *device, uint64_t bytes,
						    const struct store_faults *faults)
{
	int status;

	*device = (struct fuse_device){.folder = "/tmp/farpage-fuse-XXXXXX"};
	if (!mkdtemp(device->folder))
		return -1;
	snprintf(device->file, sizeof device->file, "%s/fuse", device->folder);
	status = store_open_memory(bytes / STORE_PAGE, &device->memory);
	device->store = device->memory;
	if (status == 0 && faults)
		status = store_open_faulty(device->memory, faults, &device->store);
	if (status == 0)
		status = disk_open(device->store, bytes, &device->disk);
	return status ? status : fuse_device_settle(device->disk);
}

__attribute__((unused)) static int fuse_device_start(struct fuse_device *device, unsigned queues, unsigned spin_us)
{
	struct frontend_config config = {.name = NAME, .folder = device->folder, .queues = queues, .spin_us = spin_us};
	int status = frontend_fuse.start(&config, device->disk, &device->frontend);

	if (status == 0)
		frontend_fuse.device(device->frontend, &device->device);
	return status;
}

/* Closes the disk and the stores, and removes the folder. Returns false if the folder was not empty. */
__attribute__((unused)) static bool fuse_device_close(struct fuse_device *device)
{
	disk_close(device->disk);
	if (device->store != device->memory)
		store_close(device->store);
	store_close(device->memory);
	return rmdir(device->folder) == 0;
}

/* --- Traces on the machine ------------------------------------------------------------------------------------- */

struct traces {
	unsigned fds, threads, mounts, loops;
};

/* Counts the descriptors and threads of this process, and the mounts and loop devices of @folder. */
__attribute__((unused)) static struct traces count_traces(const char *folder)
{
	struct traces traces = {.fds = entries("/proc/self/fd"), .threads = entries("/proc/self/task")};
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	DIR *blocks = opendir("/sys/block");
	struct dirent *block;
	char backing[PATH_MAX];
	size_t length = strlen(folder);

	while (mounts && (entry = getmntent(mounts)))
		traces.mounts += strncmp(entry->mnt_dir, folder, length) == 0;
	if (mounts)
		endmntent(mounts);
	while (blocks && (block = readdir(blocks)))
		if (strncmp(block->d_name, "loop", 4) == 0 &&
		    loop_backing(atoi(block->d_name + 4), backing, sizeof backing) == 0)
			traces.loops += strncmp(backing, folder, length) == 0;
	if (blocks)
		closedir(blocks);
	return traces;
}

/* Returns true once the traces equal @before, within 2 s. A joined thread stays visible for a moment. */
__attribute__((unused)) static bool traces_vanish(struct traces before, const char *folder)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct traces now = count_traces(folder);

	for (unsigned i = 0; i < 2000 && memcmp(&before, &now, sizeof now) != 0; i++) {
		nanosleep(&pause, NULL);
		now = count_traces(folder);
	}
	if (memcmp(&before, &now, sizeof now) == 0)
		return true;
	printf("# descriptors %u, then %u, threads %u and %u, mounts %u and %u, loop devices %u and %u\n", before.fds,
	       now.fds, before.threads, now.threads, before.mounts, now.mounts, before.loops, now.loops);
	return false;
}
#endif
