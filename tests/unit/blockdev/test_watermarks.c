/* Unit tests of blockdev/watermarks: the values that are needed, the values that remain when one of several devices
   goes, and the files themselves (as root). */
#include "blockdev/host/watermarks.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB_OF_GIB (UINT64_C(1) << 20)

static void memory_and_data_in_progress_decide_the_values(void)
{
	struct watermarks needed = watermarks_needed(16 * KIB_OF_GIB, 8192);

	ok(needed.at[WATERMARK_MIN] == 16384 + 2 * 8192,
	   "the reserve of 16G is the kernel's own and twice the data in progress");
	ok(needed.at[WATERMARK_SCALE] == 5, "the scale factor of 16G covers the data in progress, rounded up");
	needed = watermarks_needed(473088, 16384);
	ok(needed.at[WATERMARK_MIN] == 2751 + 32768 && needed.at[WATERMARK_SCALE] == 347,
	   "a machine of 512M gets a reserve of 35519 KiB and a scale factor of 347");
	needed = watermarks_needed(131072, 16384);
	ok(needed.at[WATERMARK_MIN] == 16384, "the reserve is at most an eighth of a small machine");
	ok(needed.at[WATERMARK_SCALE] == 500, "the scale factor is at most 5 %% of a small machine");
	ok(watermarks_needed(1, 0).at[WATERMARK_MIN] == 128, "the reserve is at least 128K");
	ok(watermarks_needed(0, 16384).at[WATERMARK_MIN] == 128, "the reserve is 128K if the memory is unknown");
	ok(watermarks_needed(UINT64_C(1) << 40, 0).at[WATERMARK_MIN] == 262144,
	   "the reserve is at most 256M on a huge machine");
}

static struct watermarks both(uint64_t min, uint64_t scale)
{
	return (struct watermarks){{min, scale}};
}

static bool same(const struct watermarks *a, uint64_t min, uint64_t scale)
{
	return a->at[WATERMARK_MIN] == min && a->at[WATERMARK_SCALE] == scale;
}

static struct watermarks_record planned(uint64_t now, uint64_t needed, const struct watermarks_record *others,
					unsigned count)
{
	struct watermarks at = both(now, now), wanted = both(needed, needed);

	return watermarks_plan(&at, &wanted, others, count);
}

/* Returns the value that is restored when the device of @own goes, or UINT64_MAX if the value stays as it is. */
static uint64_t undone(const struct watermarks_record *own, uint64_t now, const struct watermarks_record *others,
		       unsigned count)
{
	uint64_t value = UINT64_MAX;

	return watermarks_undo(WATERMARK_MIN, own, now, others, count, &value) ? value : UINT64_MAX;
}

static void one_device_raises_and_restores(void)
{
	struct watermarks_record one = planned(100, 300, NULL, 0);
	char text[WATERMARKS_TEXT_MAX];

	ok(same(&one.found, 100, 100) && same(&one.set, 300, 300),
	   "one device raises both values and records what it found");
	ok(watermarks_changes(&one, text) && strstr(text, "vm.min_free_kbytes 100 -> 300, vm.watermark_scale_factor"),
	   "a record tells its changes: %s", text);
	ok(undone(&one, 300, NULL, 0) == 100, "the values are restored when the only device goes");
	ok(undone(&one, 301, NULL, 0) == UINT64_MAX, "a value that somebody else has changed is not restored");
	ok(undone(&one, 300 - 200 / 16, NULL, 0) == 100 && undone(&one, 100, NULL, 0) == 100,
	   "a value that was lowered for relief is restored");
	one = planned(400, 300, NULL, 0);
	ok(same(&one.set, 400, 400), "values higher than needed are not lowered");
	ok(!watermarks_changes(&one, text) && !*text, "a record without changes gives an empty text");
	ok(undone(&one, 400, NULL, 0) == 400, "values that were not raised stay when the device goes");
}

static void two_devices_leave_each_other_their_values(void)
{
	struct watermarks_record first = planned(100, 300, NULL, 0), second = planned(300, 500, &first, 1);

	ok(same(&second.found, 100, 100), "the second device records the values that the first found");
	ok(undone(&first, 500, &second, 1) == 500, "the values of the second device stay when the first goes");
	ok(undone(&second, 500, NULL, 0) == 100, "the found values return when the second device goes last");
	ok(undone(&second, 500, &first, 1) == 300, "the values of the first device stay when the second goes");
	ok(undone(&first, 300, NULL, 0) == 100, "the found values return when the first device goes last");
	second = planned(300, 200, &first, 1);
	ok(same(&second.set, 300, 300) && undone(&first, 300, &second, 1) == 300,
	   "a second device that needs less keeps the higher values");
	ok(undone(&second, 300, NULL, 0) == 100,
	   "the found values return when a second device that needs less goes last");
	second = planned(350, 320, &first, 1);
	ok(same(&second.found, 350, 350), "values that somebody raised between two devices are recorded as found");
	ok(undone(&first, 350, &second, 1) == 350 && undone(&second, 350, &first, 1) == 350,
	   "values that somebody raised stay when either device goes");
}

/* The first device has lowered the reserve for relief when the second is created. */
static void relief_is_undone_by_the_last_of_two_devices(void)
{
	struct watermarks_record first = planned(100, 300, NULL, 0), second;
	struct watermarks lowered = both(300 - 200 * 8 / 16, 300), needed = both(500, 500), less = both(250, 250);

	second = watermarks_plan(&lowered, &needed, &first, 1);
	ok(same(&second.found, 100, 100) && same(&second.set, 500, 500),
	   "a second device sees a value lowered for relief as the first device's");
	ok(undone(&first, 500, &second, 1) == 500 && undone(&second, 500, NULL, 0) == 100,
	   "values are restored by the last device after relief");
	second = watermarks_plan(&lowered, &less, &first, 1);
	ok(same(&second.found, 100, 100) && same(&second.set, 300, 300),
	   "a second device that needs less returns a value lowered for relief to the first's");
	ok(undone(&second, 300, &first, 1) == 300 && undone(&first, 300, NULL, 0) == 100,
	   "values are restored after relief when the second device needs less");
}

static void records_are_written_and_read(void)
{
	struct watermarks_record record = planned(100, 300, NULL, 0), read;
	char text[WATERMARKS_TEXT_MAX], longer[WATERMARKS_TEXT_MAX + 8];
	static const char *const bad[] = {
	    "", "min_free_kbytes found 1 set 3\n", "min_free_kbytes found 1\nwatermark_scale_factor",
	    "min_free_kbytes found 1 set 3\nwatermark_scale_factor found 1 set 3",
	    "min_free_kbytes found 1 set 30000000000\nwatermark_scale_factor found 1 set 3\n"};

	record.set.at[WATERMARK_SCALE] = 999999999;
	watermarks_format(&record, text);
	ok(watermarks_parse(text, &read) == 0 && !memcmp(&read, &record, sizeof read),
	   "a record that is written is read back the same");
	snprintf(longer, sizeof longer, "%sx", text);
	ok(watermarks_parse(longer, &read) == -EINVAL, "a record with text behind it is refused");
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(watermarks_parse(bad[i], &read) == -EINVAL, "invalid record number %u is refused", i);
}

/* --- The files, in a folder that stands for /proc/sys/vm --------------------------------------------------------- */

static void set(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof text, "%u\n", value);
	folder_put(name, text);
}

static bool now_is(uint64_t min, uint64_t scale)
{
	struct watermarks now;

	return watermarks_read(&now) == 0 && same(&now, min, scale);
}

static void devices_raise_and_restore_the_files(void)
{
	struct watermarks first_needs = both(3000, 20), second_needs = both(5000, 15);
	struct watermarks_record record;
	struct runtime first, second;

	set("min_free_kbytes", 1000);
	set("watermark_scale_factor", 10);
	if (runtime_create("first", &first) < 0 || runtime_create("second", &second) < 0) {
		ok(false, "two folders of devices are created");
		return;
	}
	ok(watermarks_raise(&first, &first_needs) == 0 && now_is(3000, 20),
	   "the first device raises both values in the files");
	ok(watermarks_raise(&second, &second_needs) == 0 && now_is(5000, 20),
	   "the second device raises only the value that is too low");
	ok(watermarks_record_read("second", &record) == 0 && same(&record.found, 1000, 10),
	   "the record of the second device has the values before the first");
	ok(!watermarks_lower(&record, 1, 2) &&
	       !watermarks_lower(&(struct watermarks_record){.set = both(3000, 20)}, 0, 1),
	   "relief does not lower a value that somebody else has changed");
	ok(watermarks_lower(&record, 0, 8) && now_is(3000, 20) && watermarks_lower(&record, 8, 16) && now_is(1000, 20),
	   "relief lowers the reserve in steps down to the value found");
	ok(watermarks_lower(&record, 16, 0) && now_is(5000, 20), "relief restores the reserve in one step");
	watermarks_restore(&first);
	ok(now_is(5000, 20), "the files keep the second device's values when the first goes");
	ok(watermarks_record_read("first", &record) == -ENOENT,
	   "restoring the first device's values removes its record");
	watermarks_restore(&first);
	ok(now_is(5000, 20), "restoring the first device's values a second time changes nothing");
	set("watermark_scale_factor", 77);
	watermarks_restore(&second);
	ok(now_is(1000, 77), "the second device restores one value and leaves the one that somebody changed");
	/* As on a kernel that lacks one of the values. */
	unlink(folder_path("watermark_scale_factor"));
	ok(watermarks_raise(&first, &first_needs) == -ENOENT && watermarks_record_read("first", &record) == -ENOENT,
	   "a kernel that lacks one value gets -ENOENT, and no record is written");
	runtime_remove(&first);
	runtime_remove(&second);
}

int main(void)
{
	log_setup("test_watermarks", LOG_LEVEL_ERROR);
	memory_and_data_in_progress_decide_the_values();
	one_device_raises_and_restores();
	two_devices_leave_each_other_their_values();
	relief_is_undone_by_the_last_of_two_devices();
	records_are_written_and_read();
	if (geteuid() != 0) {
		tap_skip("devices raise and restore the values in the files", "needs root");
		return tap_done();
	}
	setenv("FARPAGE_SYSCTL_VM", folder(), 1);
	setenv("FARPAGE_RUNTIME", folder_path("run"), 1);
	devices_raise_and_restore_the_files();
	return tap_done();
}
