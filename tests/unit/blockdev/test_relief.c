/* Unit tests of blockdev/relief: when the reserve is lowered, and when it is not. */
#include "blockdev/host/relief.h"
#include "tests/lib/folder.h"

#include <dirent.h>
#include <unistd.h>

#define RECORD "min_free_kbytes found 1000 set 33000\nwatermark_scale_factor found 10 set 10\n"

/* Starts a worker's relief while min_free_kbytes has @value. At the first look, one request of the device has
   been answered. Returns the value after that look. */
static unsigned begun(const char *path, const char *value, unsigned *ret_step)
{
	struct relief relief;

	folder_put("min_free_kbytes", value);
	relief_open(&relief, "swap", path);
	*ret_step = relief.step;
	relief_tick(&relief, UINT64_C(1) << 40, 1);
	close(relief.inflight);
	close(relief.meminfo);
	return (unsigned)text_number(folder_path("min_free_kbytes"), "");
}

/* Writes the path of any block device. Returns false if the machine has none. */
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

static void a_new_worker_finds_the_step_of_the_last(void)
{
	char path[64];
	unsigned step;

	if (!device_find(path)) {
		tap_skip("a new worker finds the step of the last worker", "no block device");
		return;
	}
	setenv("FARPAGE_RUNTIME", folder(), 1);
	setenv("FARPAGE_SYSCTL_VM", folder(), 1);
	folder_put("swap/watermarks", RECORD);
	ok(begun(path, "33000", &step) == 33000 && step == 0, "a new worker leaves an unlowered reserve unchanged");
	ok(begun(path, "27000", &step) == 33000 && step == 3,
	   "an answer restores a reserve that the last worker lowered by three steps");
	ok(begun(path, "17000", &step) == 33000 && step == RELIEF_MOST,
	   "an answer restores a reserve that the last worker lowered to half");
	ok(begun(path, "15000", &step) == 15000 && step == 0,
	   "a value lower than any step belongs to somebody else and stays");
	ok(begun(path, "26999", &step) == 26999 && step == 0,
	   "a value between two steps belongs to somebody else and stays");
}

int main(void)
{
	struct relief_sight sight = {.inflight = 64, .free_kib = 35000, .kept_kib = 35520};
	struct relief relief;
	unsigned step = 0;

	for (unsigned i = 1; i <= RELIEF_MOST; i++) {
		step = relief_step(step, &sight);
		ok(step == i, "look %u without an answer and without free memory takes another step", i);
	}
	ok(relief_step(step, &sight) == RELIEF_MOST && step < WATERMARKS_STEPS,
	   "relief lowers the reserve at most to half");
	sight.answered = 1;
	ok(relief_step(step, &sight) == 0, "an answer restores the reserve");
	sight.answered = 0;
	sight.free_kib = 2 * 35520 + 1;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 3,
	   "a slow donor causes no step while memory is free");
	sight.free_kib = 35000;
	sight.inflight = 0;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 0,
	   "a device without requests takes no step and restores the reserve");
	setenv("FARPAGE_RUNTIME", "/nowhere", 1);
	relief_open(&relief, "swap", "/dev/ublkb0");
	relief_tick(&relief, UINT64_C(1) << 40, 1);
	ok(relief.step == 0, "a device without a record lowers nothing");
	a_new_worker_finds_the_step_of_the_last();
	return tap_done();
}
