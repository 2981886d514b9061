/* test_fuse_programs: other people's programs on a block device by FUSE: fio checks what it wrote, ext4 is made,
   filled, checked and compared, and a device that is mounted is not removed. */
#include "tests/tap.h"
#include "tests/unit/blockdev/fuse_device.h"

#include <errno.h>
#include <sys/wait.h>

#define BYTES (64u << 20)

static struct fuse_device device;

/* A shell's verdict; its output goes to a file that is shown when it is bad. */
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

static void test_fio(void)
{
	if (!has("fio")) {
		tap_skip("fio finds what it wrote", "no fio here");
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
	   "and with trims in between");
}

static void test_files(void)
{
	if (!has("mkfs.ext4") || !has("fsck.ext4")) {
		tap_skip("ext4", "no e2fsprogs here");
		return;
	}
	ok(shell("mkfs.ext4 -q $DEVICE"), "ext4 is made");
	ok(shell("mkdir $FOLDER/mount && mount -t ext4 -o discard $DEVICE $FOLDER/mount && "
		 "cp -a /usr/include/linux $FOLDER/mount/ && rm -r $FOLDER/mount/linux/netfilter && sync"),
	   "and filled");
	ok(frontend_fuse.remove(device.frontend) == -EBUSY, "while it is mounted the device is not removed");
	ok(shell("umount $FOLDER/mount && fsck.ext4 -f -n $DEVICE"), "it is found clean");
	ok(shell("mount -t ext4 -o ro $DEVICE $FOLDER/mount && "
		 "diff -r -x netfilter /usr/include/linux $FOLDER/mount/linux; status=$?; "
		 "umount $FOLDER/mount && rmdir $FOLDER/mount && exit $status"),
	   "and holds the same files");
}

int main(void)
{
	char why[256];

	if (frontend_fuse.probe(why) < 0)
		return tap_skip_all(why);
	if (!ok(fuse_device_open(&device, BYTES, NULL) == 0 && fuse_device_start(&device, 2, 0) == 0, "a device"))
		return tap_done();
	test_fio();
	test_files();
	ok(frontend_fuse.remove(device.frontend) == 0 && fuse_device_close(&device), "it is removed");
	return tap_done();
}
