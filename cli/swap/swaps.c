/* swaps: see swaps.h. */
#include "cli/swap/swaps.h"

#include "common/machine.h"
#include "common/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int swaps_parse(const char *line, struct swap_area *ret_area)
{
	struct swap_area area;
	unsigned long long size, used;

	_Static_assert(sizeof area.path == 128, "what is scanned below");
	if (sscanf(line, "%127s %*s %llu %llu %d", area.path, &size, &used, &area.priority) != 4)
		return -EINVAL;
	area.size = size * 1024;
	area.used = used * 1024;
	*ret_area = area;
	return 0;
}

int swaps_read(struct swap_area *ret_areas, unsigned max)
{
	FILE *file = fopen("/proc/swaps", "re");
	char line[512];
	unsigned count = 0;

	if (!file)
		return errno == ENOENT ? 0 : -errno; /* the kernel has no swap */
	while (count < max && fgets(line, sizeof line, file))
		count += swaps_parse(line, &ret_areas[count]) == 0;
	fclose(file);
	return (int)count;
}

int swaps_find(const char *path, struct swap_area *ret_area)
{
	struct swap_area areas[SWAPS_MAX];
	int count = swaps_read(areas, SWAPS_MAX);

	for (int i = 0; i < count; i++) {
		if (strcmp(areas[i].path, path) != 0)
			continue;
		*ret_area = areas[i];
		return 0;
	}
	return count < 0 ? count : -ENOENT;
}

int swaps_room_beside(const char *path, uint64_t *ret_memory, uint64_t *ret_swap)
{
	struct swap_area areas[SWAPS_MAX];
	int count = swaps_read(areas, SWAPS_MAX), status;
	struct machine_memory memory;
	uint64_t swap = 0;
	char text[8192];

	if (count < 0)
		return count;
	status = (int)text_file_read("/proc/meminfo", text, sizeof text);
	if (status >= 0)
		status = machine_memory_parse(text, &memory);
	if (status < 0)
		return status;
	for (int i = 0; i < count; i++)
		if (strcmp(areas[i].path, path) != 0)
			swap += areas[i].size - areas[i].used;
	*ret_memory = memory.available;
	*ret_swap = swap;
	return 0;
}
