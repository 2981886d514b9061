/* Unit tests of cli/swap_groups: control groups of both versions, made of files in a folder. */
#include "cli/swap/swap_groups.h"
#include "tests/lib/folder.h"

#define MIB (UINT64_C(1) << 20)

static void put(const char *group, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof path, "%s/%s", group, name);
	folder_put(path, text);
}

/* Makes a group of version 2. @limit is the text of memory.max, or NULL for no limit. The other sizes are in MiB. */
static void group(const char *name, const char *limit, unsigned current, unsigned swap, unsigned files)
{
	char text[256];

	put(name, "memory.max", limit ? limit : "max\n");
	snprintf(text, sizeof text, "%llu\n", (unsigned long long)(current * MIB));
	put(name, "memory.current", text);
	snprintf(text, sizeof text, "%llu\n", (unsigned long long)(swap * MIB));
	put(name, "memory.swap.current", text);
	snprintf(text, sizeof text, "anon 1\ninactive_file %llu\nactive_file 0\n", (unsigned long long)(files * MIB));
	put(name, "memory.stat", text);
}

int main(void)
{
	struct swap_group found;
	const char *root = folder();

	ok(!swap_groups_overflow(root, 1000 * MIB, &found), "a folder without groups has no group that overflows");
	group("free", NULL, 900, 900, 0);
	ok(!swap_groups_overflow(root, 1000 * MIB, &found), "a group without a limit does not overflow");
	group("wide", "104857600\n", 40, 60, 0);
	ok(!swap_groups_overflow(root, 1000 * MIB, &found),
	   "a group of 100M takes back 60M of swap beside 40M in memory");
	group("files", "104857600\n", 90, 60, 50);
	ok(!swap_groups_overflow(root, 1000 * MIB, &found), "a group's file pages make room for its swap");
	group("slowed", NULL, 16, 28, 0);
	put("slowed", "memory.high", "33554432\n");
	ok(!swap_groups_overflow(root, 1000 * MIB, &found), "a group with only memory.high does not overflow");
	group("full", "33554432\n", 16, 28, 0);
	ok(swap_groups_overflow(root, 1000 * MIB, &found) && strstr(found.path, "/full") && found.limit == 32 * MIB &&
	       found.needed == 44 * MIB && found.swapped == 28 * MIB,
	   "a group of 32M overflows with 28M of swap beside 16M in memory");
	ok(!swap_groups_overflow(root, 16 * MIB, &found),
	   "a group does not overflow if the device holds only as much as fits");
	group("full/inner", NULL, 1, 1, 0);
	group("worse", "1048576\n", 1, 28, 0);
	ok(swap_groups_overflow(root, 1000 * MIB, &found) && strstr(found.path, "/worse"),
	   "the group that overflows most is named");
	put("one", "memory.limit_in_bytes", "1048576\n");
	put("one", "memory.usage_in_bytes", "1048576\n");
	put("one", "memory.stat", "swap 5\ntotal_swap 104857600\ntotal_inactive_file 0\n");
	ok(swap_groups_overflow(root, 1000 * MIB, &found) && strstr(found.path, "/one") && found.swapped == 100 * MIB,
	   "a group of version 1 overflows by its own figures");
	return tap_done();
}
