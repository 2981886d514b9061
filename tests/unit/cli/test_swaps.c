/* Unit tests of cli/swaps: parsing of /proc/swaps. */
#include "cli/swap/swaps.h"
#include "tests/lib/tap.h"

#include <errno.h>

int main(void)
{
	struct swap_area area, areas[SWAPS_MAX];
	uint64_t memory, swap;

	ok(swaps_parse("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", &area) == -EINVAL,
	   "the head line of /proc/swaps is no area");
	ok(swaps_parse("/dev/ublkb0                             partition\t65532\t\t512\t\t-2\n", &area) == 0 &&
	       !strcmp(area.path, "/dev/ublkb0") && area.size == 65532 * 1024 && area.used == 512 * 1024 &&
	       area.priority == -2,
	   "a line of a partition gives path, size, use and priority");
	ok(swaps_parse("/swap\\040file file 68719476732 34359738368 32767\n", &area) == 0 &&
	       area.size == UINT64_C(68719476732) * 1024 && area.used == UINT64_C(34359738368) * 1024 &&
	       area.priority == 32767,
	   "a line of a large swap file gives size, use and priority");
	ok(swaps_parse("/dev/loop0 partition 10 4\n", &area) == -EINVAL, "a line without a priority is refused");
	ok(swaps_parse("", &area) == -EINVAL, "an empty line is refused");
	ok(swaps_read(areas, SWAPS_MAX) >= 0, "the swap areas of this machine are read");
	ok(swaps_find("/nowhere", &area) == -ENOENT, "a missing swap area gets -ENOENT");
	ok(swaps_room_beside("/nowhere", &memory, &swap) == 0 && memory > 0,
	   "the room beside a missing swap area includes some memory");
	return tap_done();
}
