/* disk: see disk.h. */
#include "tests/sim/disk.h"

#include "client/backup/backup_disk.h"
#include "client/store.h"
#include "tests/sim/descriptors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DISK_PAGES 1024u

static uint64_t refusals;
static uint8_t contents[DISKS][DISK_PAGES * STORE_PAGE];

struct disk_op {
	uint64_t cookie, page, token;
	uint8_t *bytes; /* a copy of the pages of a write; otherwise NULL */
	void *into;     /* the buffer of a read; otherwise NULL */
	uint32_t pages;
	bool active, done;
	int64_t result;
};

struct backup_disk {
	uint8_t *contents;
	const struct process *process;
	struct disk_op ops[DISK_DEPTH];
	uint64_t token;
	int fd;
};

const char *disk_path(unsigned index)
{
	static const char *const paths[DISKS] = {"disk0", "disk1"};

	memset(contents[index], 0, sizeof contents[index]);
	return paths[index];
}

uint64_t disk_refusals(void)
{
	return refusals;
}

static bool disk_has_done(const void *what)
{
	const struct backup_disk *disk = what;

	for (unsigned i = 0; i < DISK_DEPTH; i++)
		if (disk->ops[i].active && disk->ops[i].done)
			return true;
	return false;
}

int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk)
{
	struct backup_disk *disk;
	unsigned index = (unsigned)(path[strlen(path) - 1] - '0');

	(void)bytes, (void)keep, (void)adopt;
	if (index >= DISKS || pages > DISK_PAGES)
		return -ENOSPC;
	disk = world_memory(sizeof *disk);
	disk->contents = contents[index];
	disk->process = task_process();
	disk->fd = descriptor_open(0, disk_has_done, disk);
	*ret_disk = disk;
	return 0;
}

void backup_disk_close(struct backup_disk *disk, bool keep)
{
	(void)keep;
	if (!disk)
		return;
	for (unsigned i = 0; i < DISK_DEPTH; i++)
		if (disk->ops[i].active)
			world_fail("%s: a backup is closed with something in flight", disk->process->name);
	descriptor_close(disk->fd);
}

int backup_disk_fd(const struct backup_disk *disk)
{
	return disk->fd;
}

/* Carries the operation out. @torn means that its process was killed meanwhile. */
static void op_apply(struct backup_disk *disk, struct disk_op *op, bool torn)
{
	uint8_t *at = disk->contents + op->page * STORE_PAGE;

	op->done = true;
	op->result = (int64_t)op->pages * STORE_PAGE;
	if (op->into) {
		memcpy(op->into, at, op->pages * STORE_PAGE);
		return;
	}
	for (uint32_t i = 0; i < op->pages; i++) {
		size_t length = !torn ? STORE_PAGE : world_below(3) * STORE_PAGE / 2;

		memcpy(at + (size_t)i * STORE_PAGE, op->bytes + (size_t)i * STORE_PAGE, length);
	}
	if (!torn && world_chance(100)) {
		op->result = -ENOSPC;
		refusals++;
	}
	free(op->bytes);
	op->bytes = NULL;
}

static void op_end(void *what, uint64_t token)
{
	struct backup_disk *disk = what;

	for (unsigned i = 0; i < DISK_DEPTH; i++) {
		struct disk_op *op = &disk->ops[i];

		if (!op->active || op->done || op->token != token || disk->process->dead)
			continue;
		op_apply(disk, op, false);
		descriptor_changed(disk->fd);
	}
}

static struct disk_op *op_begin(struct backup_disk *disk, uint64_t page, uint32_t pages, uint64_t cookie)
{
	for (unsigned i = 0; i < DISK_DEPTH; i++) {
		struct disk_op *op = &disk->ops[i];

		if (op->active)
			continue;
		*op = (struct disk_op){
		    .cookie = cookie, .page = page, .pages = pages, .token = ++disk->token, .active = true};
		world_at(world_now() + 20 * US + world_below(world_chance(50) ? 100 * MS : MS), op_end, disk,
			 op->token);
		return op;
	}
	world_fail("%s: more in flight than the disk takes", disk->process->name);
	return &disk->ops[0];
}

void backup_disk_write(struct backup_disk *disk, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie)
{
	struct disk_op *op = op_begin(disk, page, count, cookie);

	op->bytes = malloc((size_t)count * STORE_PAGE);
	for (unsigned i = 0; i < count; i++)
		memcpy(op->bytes + (size_t)i * STORE_PAGE, pieces[i].iov_base, STORE_PAGE);
}

void backup_disk_read(struct backup_disk *disk, uint64_t page, void *data, uint32_t pages, uint64_t cookie)
{
	op_begin(disk, page, pages, cookie)->into = data;
}

int backup_disk_submit(struct backup_disk *disk)
{
	(void)disk;
	return 0;
}

unsigned backup_disk_reap(struct backup_disk *disk, struct backup_disk_done *dones, unsigned max)
{
	unsigned count = 0;

	for (unsigned i = 0; i < DISK_DEPTH && count < max; i++) {
		struct disk_op *op = &disk->ops[i];

		if (op->active && !op->done && disk->process->dead)
			op_apply(disk, op, true);
		if (!op->active || !op->done)
			continue;
		op->active = false;
		dones[count++] = (struct backup_disk_done){.cookie = op->cookie, .result = op->result};
	}
	return count;
}
