/* Unit tests of blockdev/relief: when the reserve is given up, and when not. */
#include "blockdev/host/relief.h"
#include "tests/tap.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD "min_free_kbytes found 1000 set 33000\nwatermark_scale_factor found 10 set 10\n"

static char base[] = "/tmp/farpage-relief-XXXXXX";

/* min_free_kbytes is there, and `watermarks` in the folder of the device "swap". */
static void file_write(const char *file, const char *text)
{
	char path[128];
	FILE *opened;

	snprintf(path, sizeof path, "%s/%s", base, file);
	opened = fopen(path, "we");
	if (!opened || fputs(text, opened) < 0 || fclose(opened) != 0)
		exit(EXIT_FAILURE);
}

static unsigned min_free(void)
{
	char path[128];
	FILE *opened;
	unsigned value = 0;

	snprintf(path, sizeof path, "%s/min_free_kbytes", base);
	opened = fopen(path, "re");
	if (!opened || fscanf(opened, "%u", &value) != 1)
		exit(EXIT_FAILURE);
	fclose(opened);
	return value;
}

/* What a worker that begins makes of the value; its first look sees an answer. */
static unsigned begun(const char *path, const char *value, unsigned *ret_step)
{
	struct relief relief;

	file_write("min_free_kbytes", value);
	relief_open(&relief, "swap", path);
	*ret_step = relief.step;
	relief_tick(&relief, UINT64_C(1) << 40, 1);
	close(relief.inflight);
	close(relief.meminfo);
	return min_free();
}

/* Some block device of this machine; false: it has none. */
static bool device_find(char path[64])
{
	DIR *blocks = opendir("/sys/block");
	struct dirent *entry;
	bool found = false;

	while (blocks && !found && (entry = readdir(blocks))) {
		found = entry->d_name[0] != '.';
		snprintf(path, 64, "/dev/%.50s", entry->d_name);
	}
	if (blocks)
		closedir(blocks);
	return found;
}

static void test_begins(void)
{
	char path[64], folder[128];
	unsigned step;

	if (!device_find(path)) {
		ok(true, "a worker goes on where the one before it was # SKIP no block device");
		return;
	}
	if (!mkdtemp(base))
		exit(EXIT_FAILURE);
	setenv("FARPAGE_RUNTIME", base, 1);
	setenv("FARPAGE_SYSCTL_VM", base, 1);
	snprintf(folder, sizeof folder, "%s/swap", base);
	mkdir(folder, 0700);
	file_write("swap/watermarks", RECORD);
	ok(begun(path, "33000", &step) == 33000 && step == 0, "a worker begins, and nothing was lowered");
	ok(begun(path, "27000", &step) == 33000 && step == 3, "it was, by three steps: an answer raises it again");
	ok(begun(path, "17000", &step) == 33000 && step == RELIEF_MOST, "by all of them: the same");
	ok(begun(path, "15000", &step) == 15000 && step == 0, "lower than a worker goes: it was somebody else");
	ok(begun(path, "26999", &step) == 26999 && step == 0, "between two steps: the same");
	snprintf(folder, sizeof folder, "rm -r %s", base);
	if (system(folder) != 0)
		ok(false, "%s", folder);
}

int main(void)
{
	struct relief_sight sight = {.inflight = 64, .free_kib = 35000, .kept_kib = 35520};
	struct relief relief;
	unsigned step = 0;

	for (unsigned i = 1; i <= RELIEF_MOST; i++) {
		step = relief_step(step, &sight);
		ok(step == i, "look %u without an answer, and no memory: another step", i);
	}
	ok(relief_step(step, &sight) == RELIEF_MOST && step < WATERMARKS_STEPS, "no further than to half");
	sight.answered = 1;
	ok(relief_step(step, &sight) == 0, "an answer: as before");
	sight.answered = 0;
	sight.free_kib = 2 * 35520 + 1;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 3,
	   "a donor that is slow, and memory enough: no step");
	sight.free_kib = 35000;
	sight.inflight = 0;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 0, "nothing was asked for: none, and as before");
	setenv("FARPAGE_RUNTIME", "/nowhere", 1);
	relief_open(&relief, "swap", "/dev/ublkb0");
	relief_tick(&relief, UINT64_C(1) << 40, 1);
	ok(relief.step == 0, "a device without a record has nothing to give");
	test_begins();
	return tap_done();
}
