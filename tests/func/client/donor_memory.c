/* donor_memory: see donor_memory.h. */
#include "tests/func/client/donor_memory.h"

#include "tests/func/client/rig.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)RIG_SLAB)
/* Larger mappings belong to a sanitizer and are mostly not present. */
#define MAPPING_MAX (UINT64_C(1) << 30)

static int memory_open(const struct donor_process *donor)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/mem", (int)donor->pid);
	return open(path, O_RDWR | O_CLOEXEC);
}

bool donor_memory_opens(const struct donor_process *donor)
{
	int fd = memory_open(donor);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Calls @visit for the donor's memory, a piece at a time. */
static void memory_visit(const struct donor_process *donor,
			 void (*visit)(void *context, uint64_t address, const uint8_t *bytes, size_t length),
			 void *context)
{
	static uint8_t bytes[PIECE];
	char path[32], line[512], rights[8];
	int fd = memory_open(donor);
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)donor->pid);
	maps = fopen(path, "re");
	while (fd >= 0 && maps && fgets(line, sizeof line, maps)) {
		uint64_t first, end;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &first, &end, rights) != 3 || rights[0] != 'r' ||
		    rights[1] != 'w' || end - first > MAPPING_MAX)
			continue;
		for (uint64_t at = first, next; at < end; at = next) {
			ssize_t length;

			next = (at / PIECE + 1) * PIECE < end ? (at / PIECE + 1) * PIECE : end;
			length = pread(fd, bytes, next - at, (off_t)at);
			if (length > 0)
				visit(context, at, bytes, (size_t)length);
		}
	}
	if (maps)
		fclose(maps);
	if (fd >= 0)
		close(fd);
}

struct counting {
	const void *bytes;
	size_t length;
	uint64_t count;
};

static void visit_count(void *context, uint64_t address, const uint8_t *bytes, size_t length)
{
	struct counting *counting = context;
	const uint8_t *end = bytes + length;

	(void)address;
	while ((bytes = memmem(bytes, (size_t)(end - bytes), counting->bytes, counting->length))) {
		counting->count++;
		bytes += counting->length;
	}
}

uint64_t donor_memory_count(const struct donor_process *donor, const void *bytes, size_t length)
{
	struct counting counting = {.bytes = bytes, .length = length};

	memory_visit(donor, visit_count, &counting);
	return counting.count;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, length - 1);
}

struct seeking {
	unsigned pages, found;
	uint64_t address;
};

/* Slabs are aligned to their length, which is the length of a piece. */
static void visit_seek(void *context, uint64_t address, const uint8_t *bytes, size_t length)
{
	struct seeking *seeking = context;
	size_t used = (size_t)seeking->pages * STORE_PAGE;

	if (address % PIECE || length != PIECE || !is_zero(bytes + used, PIECE - used))
		return;
	for (size_t at = 0; at < used; at += STORE_PAGE)
		if (is_zero(bytes + at, STORE_PAGE))
			return;
	seeking->address = address;
	seeking->found++;
}

bool donor_memory_slab(const struct donor_process *donor, unsigned pages, uint64_t *ret_address)
{
	struct seeking seeking = {.pages = pages};

	memory_visit(donor, visit_seek, &seeking);
	*ret_address = seeking.address;
	return seeking.found == 1;
}

static void page_moved(int fd, ssize_t length)
{
	if (length != (ssize_t)STORE_PAGE)
		tap_bail("a donor's memory cannot be reached");
	close(fd);
}

void donor_memory_get(const struct donor_process *donor, uint64_t address, void *page)
{
	int fd = memory_open(donor);

	page_moved(fd, pread(fd, page, STORE_PAGE, (off_t)address));
}

void donor_memory_put(const struct donor_process *donor, uint64_t address, const void *page)
{
	int fd = memory_open(donor);

	page_moved(fd, pwrite(fd, page, STORE_PAGE, (off_t)address));
}
