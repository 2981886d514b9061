/* Unit tests of blockdev/watermarks: what is needed, what devices leave each other, and as root the files themselves.
 */
#include "blockdev/host/watermarks.h"
#include "common/log.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB_OF_GIB (UINT64_C(1) << 20)

static void test_needed(void)
{
	struct watermarks needed = watermarks_needed(16 * KIB_OF_GIB, 8192);

	ok(needed.at[WATERMARK_MIN] == 16384 + 2 * 8192, "16G: the kernel's own and twice what is under way");
	ok(needed.at[WATERMARK_SCALE] == 5, "and a distance of what is under way, rounded up");
	needed = watermarks_needed(473088, 16384);
	ok(needed.at[WATERMARK_MIN] == 2751 + 32768 && needed.at[WATERMARK_SCALE] == 347, "a machine of 512M");
	needed = watermarks_needed(131072, 16384);
	ok(needed.at[WATERMARK_MIN] == 16384, "no more than an eighth of a small machine");
	ok(needed.at[WATERMARK_SCALE] == 500, "and no distance of more than 5 %% of it");
	ok(watermarks_needed(1, 0).at[WATERMARK_MIN] == 128, "at least 128K");
	ok(watermarks_needed(0, 16384).at[WATERMARK_MIN] == 128, "also when nobody knows the memory");
	ok(watermarks_needed(UINT64_C(1) << 40, 0).at[WATERMARK_MIN] == 262144, "at most 256M for a huge one");
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

/* What is left when @own goes; UINT64_MAX: it is not touched. */
static uint64_t undone(const struct watermarks_record *own, uint64_t now, const struct watermarks_record *others,
		       unsigned count)
{
	uint64_t value = UINT64_MAX;

	return watermarks_undo(WATERMARK_MIN, own, now, others, count, &value) ? value : UINT64_MAX;
}

static void test_one(void)
{
	struct watermarks_record one = planned(100, 300, NULL, 0);
	char text[WATERMARKS_TEXT_MAX];

	ok(same(&one.found, 100, 100) && same(&one.set, 300, 300), "raised");
	ok(watermarks_changes(&one, text) && strstr(text, "vm.min_free_kbytes 100 -> 300, vm.watermark_scale_factor"),
	   "which is told: %s", text);
	ok(undone(&one, 300, NULL, 0) == 100, "and put back");
	ok(undone(&one, 301, NULL, 0) == UINT64_MAX, "but not when somebody has changed it");
	ok(undone(&one, 300 - 200 / 16, NULL, 0) == 100 && undone(&one, 100, NULL, 0) == 100,
	   "when it has been lowered for relief, too");
	one = planned(400, 300, NULL, 0);
	ok(same(&one.set, 400, 400), "never lowered");
	ok(!watermarks_changes(&one, text) && !*text, "of which nothing is told");
	ok(undone(&one, 400, NULL, 0) == 400, "nor later");
}

static void test_two(void)
{
	struct watermarks_record first = planned(100, 300, NULL, 0), second = planned(300, 500, &first, 1);

	ok(same(&second.found, 100, 100), "the second has found what the first has");
	ok(undone(&first, 500, &second, 1) == 500, "the first goes: what the second needs stays");
	ok(undone(&second, 500, NULL, 0) == 100, "and then goes with it");
	ok(undone(&second, 500, &first, 1) == 300, "the second goes: what the first needs stays");
	ok(undone(&first, 300, NULL, 0) == 100, "and then goes with it");
	second = planned(300, 200, &first, 1);
	ok(same(&second.set, 300, 300) && undone(&first, 300, &second, 1) == 300,
	   "a second that needs less: what is there stays");
	ok(undone(&second, 300, NULL, 0) == 100, "until it goes as well");
	second = planned(350, 320, &first, 1);
	ok(same(&second.found, 350, 350), "somebody has raised it between them: that is found");
	ok(undone(&first, 350, &second, 1) == 350 && undone(&second, 350, &first, 1) == 350, "and stays");
}

/* Memory was short when the second came. */
static void test_two_lowered(void)
{
	struct watermarks_record first = planned(100, 300, NULL, 0), second;
	struct watermarks lowered = both(300 - 200 * 8 / 16, 300), needed = both(500, 500), less = both(250, 250);

	second = watermarks_plan(&lowered, &needed, &first, 1);
	ok(same(&second.found, 100, 100) && same(&second.set, 500, 500), "lowered for relief, it is ours all the same");
	ok(undone(&first, 500, &second, 1) == 500 && undone(&second, 500, NULL, 0) == 100, "and put back by the last");
	second = watermarks_plan(&lowered, &less, &first, 1);
	ok(same(&second.found, 100, 100) && same(&second.set, 300, 300), "a second that needs less: as it was");
	ok(undone(&second, 300, &first, 1) == 300 && undone(&first, 300, NULL, 0) == 100, "and put back");
}

static void test_text(void)
{
	struct watermarks_record record = planned(100, 300, NULL, 0), read;
	char text[WATERMARKS_TEXT_MAX], longer[WATERMARKS_TEXT_MAX + 8];
	static const char *const bad[] = {
	    "", "min_free_kbytes found 1 set 3\n", "min_free_kbytes found 1\nwatermark_scale_factor",
	    "min_free_kbytes found 1 set 3\nwatermark_scale_factor found 1 set 3",
	    "min_free_kbytes found 1 set 30000000000\nwatermark_scale_factor found 1 set 3\n"};

	record.set.at[WATERMARK_SCALE] = 999999999;
	watermarks_format(&record, text);
	ok(watermarks_parse(text, &read) == 0 && !memcmp(&read, &record, sizeof read), "written and read");
	snprintf(longer, sizeof longer, "%sx", text);
	ok(watermarks_parse(longer, &read) == -EINVAL, "with something behind it: no record");
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(watermarks_parse(bad[i], &read) == -EINVAL, "number %u of those that are none", i);
}

/* --- The files, in a folder that stands for /proc/sys/vm --------------------------------------------------------- */

static char folder[] = "/tmp/farpage-watermarks.XXXXXX";

static void set(const char *name, unsigned value)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "w");
	fprintf(file, "%u\n", value);
	fclose(file);
}

static bool now_is(uint64_t min, uint64_t scale)
{
	struct watermarks now;

	return watermarks_read(&now) == 0 && same(&now, min, scale);
}

static void test_files(void)
{
	struct watermarks first_needs = both(3000, 20), second_needs = both(5000, 15);
	struct watermarks_record record;
	struct runtime first, second;
	char path[128];

	set("min_free_kbytes", 1000);
	set("watermark_scale_factor", 10);
	if (runtime_create("first", &first) < 0 || runtime_create("second", &second) < 0) {
		ok(false, "two folders");
		return;
	}
	ok(watermarks_raise(&first, &first_needs) == 0 && now_is(3000, 20), "a device raises both");
	ok(watermarks_raise(&second, &second_needs) == 0 && now_is(5000, 20), "another one of them");
	ok(watermarks_record_read("second", &record) == 0 && same(&record.found, 1000, 10), "both have found the same");
	ok(!watermarks_lower(&record, 1, 2) &&
	       !watermarks_lower(&(struct watermarks_record){.set = both(3000, 20)}, 0, 1),
	   "for relief only what is as it was set is lowered");
	ok(watermarks_lower(&record, 0, 8) && now_is(3000, 20) && watermarks_lower(&record, 8, 16) && now_is(1000, 20),
	   "in steps down to what was found");
	ok(watermarks_lower(&record, 16, 0) && now_is(5000, 20), "and back at once");
	watermarks_restore(&first);
	ok(now_is(5000, 20), "the first goes: what the second has set stays");
	ok(watermarks_record_read("first", &record) == -ENOENT, "and no record of it");
	watermarks_restore(&first);
	ok(now_is(5000, 20), "which it cannot do twice");
	set("watermark_scale_factor", 77);
	watermarks_restore(&second);
	ok(now_is(1000, 77), "the second goes: one is put back, the other was changed by somebody");
	/* A value that the kernel does not take. */
	snprintf(path, sizeof path, "%s/watermark_scale_factor", folder);
	unlink(path);
	ok(watermarks_raise(&first, &first_needs) == -ENOENT && watermarks_record_read("first", &record) == -ENOENT,
	   "a kernel without one of them: nothing is done");
	runtime_remove(&first);
	runtime_remove(&second);
}

int main(void)
{
	char runtime[64], command[128];

	log_setup("test_watermarks", LOG_LEVEL_ERROR);
	test_needed();
	test_one();
	test_two();
	test_two_lowered();
	test_text();
	if (geteuid() != 0 || !mkdtemp(folder)) {
		tap_skip("files", "needs root");
		return tap_done();
	}
	setenv("FARPAGE_SYSCTL_VM", folder, 1);
	snprintf(runtime, sizeof runtime, "%s/run", folder);
	setenv("FARPAGE_RUNTIME", runtime, 1);
	test_files();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	ok(system(command) == 0, "all is gone");
	return tap_done();
}
