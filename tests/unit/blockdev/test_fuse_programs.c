/* test_fuse_programs: other programs on a FUSE block device. fio checks what it wrote. An ext4 is made, filled, checked
   and compared. A mounted device is not removed. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/fuse_device.h"

#include <errno.h>
#include <sys/wait.h>

#define BYTES (64u << 20)

static struct fuse_device device;

/* Runs @commands in a shell and prints their output if they fail. Returns true if they succeed. */
static bool shell(const char *commands)
{
	char line[2048], path[] = "/tmp/farpage-shell-XXXXXX";
	int output = mkostemp(path, O_CLOEXEC);
	FILE *shown;
	bool good;

	setenv("DEVICE", device.device.path, 1);
	setenv("FOLDER", device.folder, 1);
	snprintf(line, sizeof line, "{ %s; } >%s 2>&1 </dev/null", commands, path);
	good = system(line) == 0;
	shown = good ? NULL : fopen(path, "re");
	while (shown && fgets(line, sizeof line, shown))
		printf("# %s", line);
	if (shown)
		fclose(shown);
	close(output);
	unlink(path);
	return good;
}

static bool has(const char *program)
{
	char line[128];

	snprintf(line, sizeof line, "command -v %s", program);
	return shell(line);
}

static void fio_finds_what_it_wrote(void)
{
	if (!has("fio")) {
		tap_skip("fio finds what it wrote at random, in blocks of several sizes", "fio is not installed");
		return;
	}
	ok(shell("fio --name=random --filename=$DEVICE --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite "
		 "--bssplit=4k/50:16k/20:128k/20:512k/10 --size=32M --verify=crc32c --verify_fatal=1 "
		 "--verify_state_save=0 "
		 "--output-format=terse"),
	   "fio finds what it wrote at random, in blocks of several sizes");
	ok(shell("fio --name=trims --filename=$DEVICE --direct=1 --ioengine=libaio --iodepth=16 --rw=randtrimwrite "
		 "--bs=16k --offset=32M --size=16M --verify=crc32c --verify_fatal=1 --verify_state_save=0 "
		 "--output-format=terse"),
	   "fio finds what it wrote between trims");
}

static void ext4_holds_its_files(void)
{
	if (!has("mkfs.ext4") || !has("fsck.ext4")) {
		tap_skip("mkfs.ext4 makes a file system on a FUSE device", "e2fsprogs is not installed");
		return;
	}
	ok(shell("mkfs.ext4 -q $DEVICE"), "mkfs.ext4 makes a file system on a FUSE device");
	ok(shell("mkdir $FOLDER/mount && mount -t ext4 -o discard $DEVICE $FOLDER/mount && "
		 "cp -a /usr/include/linux $FOLDER/mount/ && rm -r $FOLDER/mount/linux/netfilter && sync"),
	   "an ext4 on a FUSE device takes files and removals");
	ok(frontend_fuse.remove(device.frontend) == -EBUSY, "the removal of a mounted FUSE device gets -EBUSY");
	ok(shell("umount $FOLDER/mount && fsck.ext4 -f -n $DEVICE"), "fsck finds the ext4 on a FUSE device clean");
	ok(shell("mount -t ext4 -o ro $DEVICE $FOLDER/mount && "
		 "diff -r -x netfilter /usr/include/linux $FOLDER/mount/linux; status=$?; "
		 "umount $FOLDER/mount && rmdir $FOLDER/mount && exit $status"),
	   "an ext4 on a FUSE device holds the files copied to it");
}

int main(void)
{
	char why[256];

	if (frontend_fuse.probe(why) < 0)
		return tap_skip_all(why);
	if (!ok(fuse_device_open(&device, BYTES, NULL) == 0 && fuse_device_start(&device, 2, 0) == 0,
		"a FUSE device for other programs starts"))
		return tap_done();
	fio_finds_what_it_wrote();
	ext4_holds_its_files();
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device),
	   "a FUSE device is removed after other programs used it");
	return tap_done();
}
