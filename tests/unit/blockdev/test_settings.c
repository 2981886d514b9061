/* Unit tests of blockdev/settings: which options are valid, and that options kept for the next daemon are read back the
   same. The tests in tests/func check the messages. */
#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/settings.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>

#define ARGUMENTS_MAX 96

static struct settings settings;

/* Reads the words of @text as a command line would give them. */
static int settings_of(const char *text)
{
	static char words[RUNTIME_OPTIONS_MAX];
	char *argv[ARGUMENTS_MAX + 1] = {words}, *rest = words;
	int argc = 0;

	while (settings.donors.count) /* removes the donors of the last call; a program keeps its donors */
		free((void *)(uintptr_t)settings.donors.items[--settings.donors.count]);
	snprintf(words, sizeof words, "farpage-blockdev %s", text);
	while (argc < ARGUMENTS_MAX && (argv[argc] = strsep(&rest, " ")))
		argc++;
	return settings_read(&settings, argc, argv);
}

static void a_size_is_whole_pages_within_limits(void)
{
	ok(settings_of("--name=a --memory --size=64M") == 0 && settings.size == 64 << 20,
	   "a size of 64M is read as 64 MiB");
	ok(settings_of("--name=a --memory --size=1M") == 0, "a size of 1M, the smallest, is accepted");
	ok(settings_of("--name=a --memory --size=1052672") == 0, "a size of 1M and a page is accepted");
	ok(settings_of("--name=a --memory --size=1052673") == -EINVAL,
	   "a size that exceeds whole pages by a byte is refused");
	ok(settings_of("--name=a --memory --size=1048064") == -EINVAL,
	   "a size of whole sectors but not whole pages is refused");
	ok(settings_of("--name=a --memory --size=4096") == -EINVAL, "a size of 4096 bytes is refused as too small");
	ok(settings_of("--name=a --memory --size=64T") == 0, "a size of 64T, the largest, is accepted");
	ok(settings_of("--name=a --memory --size=65T") == -EINVAL, "a size of 65T is refused as too large");
	ok(settings_of("--name=a --memory") == -EINVAL, "a device without a size is refused");
}

static void a_device_has_either_donors_or_memory(void)
{
	ok(settings_of("--name=a --size=1M --donor=tcp://h --donor=tcp://i") == 0 && settings.donors.count == 2,
	   "a device with two donors is accepted");
	ok(settings_of("--name=a --size=1M") == -EINVAL, "a device without donors and memory is refused");
	ok(settings_of("--name=a --size=1M --memory --donor=tcp://h") == -EINVAL,
	   "a device with both donors and memory is refused");
	ok(settings_of("--name=a --size=1M --donor=tcp://h --replicas=2") == -EINVAL,
	   "a device with more replicas than donors is refused");
	ok(settings_of("--name=a --size=1M --donor=tcp://h,tcp://i --replicas=2") == 0,
	   "a device with as many replicas as donors is accepted");
	ok(settings_of("--size=1M --memory") == -EINVAL, "a device without a name is refused");
	ok(settings_of("--name=../x --size=1M --memory") == -EINVAL, "a device with an invalid name is refused");
	ok(settings_of("--name=a --size=1M --memory more") == -EINVAL, "a word that is no option is refused");
	ok(settings_of("--name=a --size=1M --memory --key=/nowhere/key") == -EINVAL,
	   "a key file that does not exist is refused");
}

/* Options that the next daemon could not read back. */
static void options_that_cannot_be_kept_are_refused(void)
{
	static char text[RUNTIME_OPTIONS_MAX];
	int length = snprintf(text, sizeof text, "--name=a --size=1M --donor=tcp://");

	memset(text + length, 'a', sizeof text - 600 - (size_t)length);
	ok(settings_of(text) == -EINVAL, "a donor's address too long for the options file is refused");
	ok(settings_of("--name=a --size=1M --donor=tcp://h\n--memory") == -EINVAL,
	   "a donor's address with a line break is refused");
	ok(settings_of("--name=a --size=1M --memory --log=/tmp/x\n--memory") == -EINVAL,
	   "a log file with a line break in its name is refused");
	ok(settings_of("--name=a --size=1M --memory --log=/nowhere/log") == -EINVAL,
	   "a log file that cannot be written is refused");
	ok(settings_of("--name=a --size=1M --memory --log=/dev/null") == 0,
	   "a log file that can be written is accepted");
}

/* Writes the settings to the options file of the device @name. */
static void options_are_kept(const char *name)
{
	static char text[RUNTIME_OPTIONS_MAX];
	char path[64];

	text[settings_write(&settings, text, sizeof text - 1)] = '\0';
	snprintf(path, sizeof path, "%s/options", name);
	folder_put(path, text);
}

static void kept_options_are_read_back(void)
{
	struct settings kept;

	settings_of("--name=a --size=8M --donor=tcp://h:1,rdma://i --replicas=2 --rebuild-rate=64M --scrub-rate=0 "
		    "--backup=/var/b --queues=3 --depth=7 --spin-us=0 --timeout-ms=700 --grace=9 --encrypt "
		    "--overcommit --swap --keep-vm-settings --metrics=9471 --verbose --frontend=ublk --log=/dev/null");
	options_are_kept("a");
	ok(settings_of("--name=a --adopt") == 0 && settings.adopt, "a device with an options file is adopted");
	ok(settings.size == 8 << 20 && settings.donors.count == 2 && !strcmp(settings.donors.items[1], "rdma://i") &&
	       settings.replicas == 2 && settings.rebuild_rate == 64 << 20 && !settings.scrub_rate && settings.backup &&
	       !strcmp(settings.backup, "/var/b") && settings.queues == 3 && settings.depth == 7 &&
	       settings.spin_us == 0 && settings.timeout_ms == 700 && settings.grace_s == 9 && settings.encrypt &&
	       settings.overcommit && settings.swap && settings.keep_vm && settings.verbose && settings.metrics &&
	       !strcmp(settings.metrics, "9471") && !strcmp(settings.frontend, "ublk") &&
	       !strcmp(settings.log_file, "/dev/null"),
	   "the adopted device has all options that were kept");
	ok(settings_kept("a", &kept) == 0 && kept.timeout_ms == 700 && kept.swap && !strcmp(kept.name, "a"),
	   "settings_kept() reads the options of another device");
	free((void *)(uintptr_t)kept.donors.items[0]);
	free((void *)(uintptr_t)kept.donors.items[1]);
	ok(settings_kept("b", &kept) == -EINVAL && settings_kept("../a", &kept) == -EINVAL,
	   "settings_kept() gets -EINVAL for a missing or invalid name");
	ok(settings_of("--name=a --adopt --spin-us=20") == 0 && settings.spin_us == 20 && settings.depth == 7,
	   "an option given at adoption replaces the kept one");
	ok(settings_of("--name=a --adopt --size=16M") == -EINVAL, "a size given at adoption is refused");
	ok(settings_of("--name=a --adopt --donor=tcp://h") == -EINVAL, "donors given at adoption are refused");
	ok(settings_of("--name=b --adopt") == -EINVAL, "adopting a device without an options file is refused");
	ok(settings_of("--name=b --remove") == 0, "removing a device needs no options file");
	ok(settings_of("--name=a --size=8M --memory --backup=/var/b") == -EINVAL,
	   "a device in memory with a backup is refused");
	settings_of("--name=c --size=8M --memory");
	options_are_kept("c");
	ok(settings_of("--name=c --remove") == 0 && settings.memory,
	   "the options file keeps that a device is in memory");
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	setenv("FARPAGE_RUNTIME", folder(), 1);
	a_size_is_whole_pages_within_limits();
	a_device_has_either_donors_or_memory();
	options_that_cannot_be_kept_are_refused();
	kept_options_are_read_back();
	return tap_done();
}
