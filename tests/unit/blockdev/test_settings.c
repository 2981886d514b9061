/* Unit tests of blockdev/settings: what makes sense, and that what is kept for the next daemon is read back the same.
   The messages themselves are checked from outside, in func. */
#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/settings.h"
#include "common/log.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGUMENTS_MAX 96

static struct settings settings;

/* Reads the words of @text as a command line would give them. */
static int settings_of(const char *text)
{
	static char words[RUNTIME_OPTIONS_MAX];
	char *argv[ARGUMENTS_MAX + 1] = {words}, *rest = words;
	int argc = 0;

	while (settings.donors.count) /* of the time before: a program keeps them until it ends */
		free((void *)(uintptr_t)settings.donors.items[--settings.donors.count]);
	snprintf(words, sizeof words, "farpage-blockdev %s", text);
	while (argc < ARGUMENTS_MAX && (argv[argc] = strsep(&rest, " ")))
		argc++;
	return settings_read(&settings, argc, argv);
}

static void test_sizes(void)
{
	ok(settings_of("--name=a --memory --size=64M") == 0 && settings.size == 64 << 20, "64M");
	ok(settings_of("--name=a --memory --size=1M") == 0, "the least");
	ok(settings_of("--name=a --memory --size=1052672") == 0, "a page more");
	ok(settings_of("--name=a --memory --size=1052673") == -EINVAL, "a byte more");
	ok(settings_of("--name=a --memory --size=1048064") == -EINVAL, "sectors, not pages");
	ok(settings_of("--name=a --memory --size=4096") == -EINVAL, "too small");
	ok(settings_of("--name=a --memory --size=64T") == 0, "the most");
	ok(settings_of("--name=a --memory --size=65T") == -EINVAL, "too large");
	ok(settings_of("--name=a --memory") == -EINVAL, "none");
}

static void test_stores(void)
{
	ok(settings_of("--name=a --size=1M --donor=tcp://h --donor=tcp://i") == 0 && settings.donors.count == 2,
	   "two donors");
	ok(settings_of("--name=a --size=1M") == -EINVAL, "neither donors nor memory");
	ok(settings_of("--name=a --size=1M --memory --donor=tcp://h") == -EINVAL, "both");
	ok(settings_of("--name=a --size=1M --donor=tcp://h --replicas=2") == -EINVAL, "more replicas than donors");
	ok(settings_of("--name=a --size=1M --donor=tcp://h,tcp://i --replicas=2") == 0, "as many");
	ok(settings_of("--size=1M --memory") == -EINVAL, "no name");
	ok(settings_of("--name=../x --size=1M --memory") == -EINVAL, "a name that is none");
	ok(settings_of("--name=a --size=1M --memory more") == -EINVAL, "a word too many");
	ok(settings_of("--name=a --size=1M --memory --key=/nowhere/key") == -EINVAL, "no such key");
}

/* What the next daemon could not read again. */
static void test_not_kept(void)
{
	static char text[RUNTIME_OPTIONS_MAX];
	int length = snprintf(text, sizeof text, "--name=a --size=1M --donor=tcp://");

	memset(text + length, 'a', sizeof text - 600 - (size_t)length);
	ok(settings_of(text) == -EINVAL, "an address that is too long to be kept");
	ok(settings_of("--name=a --size=1M --donor=tcp://h\n--memory") == -EINVAL, "one that is two lines");
	ok(settings_of("--name=a --size=1M --memory --log=/tmp/x\n--memory") == -EINVAL, "a log that is two lines");
	ok(settings_of("--name=a --size=1M --memory --log=/nowhere/log") == -EINVAL, "a log that cannot be written");
	ok(settings_of("--name=a --size=1M --memory --log=/dev/null") == 0, "one that can");
}

/* What settings_write() gives is taken for @name's folder's. */
static void keep(const char *base, const char *name)
{
	static char text[RUNTIME_OPTIONS_MAX];
	size_t length = settings_write(&settings, text, sizeof text);
	char path[128];
	int fd;

	snprintf(path, sizeof path, "%s/%s", base, name);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/%s/options", base, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ok(fd >= 0 && write(fd, text, length) == (ssize_t)length, "kept in %s", name);
	close(fd);
}

static void forget(const char *base, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s/options", base, name);
	unlink(path);
	snprintf(path, sizeof path, "%s/%s", base, name);
	rmdir(path);
}

static void test_kept(const char *base)
{
	struct settings kept;

	settings_of(
	    "--name=a --size=8M --donor=tcp://h:1,rdma://i --replicas=2 --rebuild-rate=64M --scrub-rate=0 "
	    "--backup=/var/b --queues=3 "
	    "--depth=7 --spin-us=0 "
	    "--timeout-ms=700 --grace=9 --encrypt --overcommit --swap --keep-vm-settings --verbose --frontend=ublk "
	    "--log=/dev/null");
	keep(base, "a");
	ok(settings_of("--name=a --adopt") == 0 && settings.adopt, "adopted");
	ok(settings.size == 8 << 20 && settings.donors.count == 2 && !strcmp(settings.donors.items[1], "rdma://i") &&
	       settings.replicas == 2 && settings.rebuild_rate == 64 << 20 && !settings.scrub_rate && settings.backup &&
	       !strcmp(settings.backup, "/var/b") && settings.queues == 3 && settings.depth == 7 &&
	       settings.spin_us == 0 && settings.timeout_ms == 700 && settings.grace_s == 9 && settings.encrypt &&
	       settings.overcommit && settings.swap && settings.keep_vm && settings.verbose &&
	       !strcmp(settings.frontend, "ublk") && !strcmp(settings.log_file, "/dev/null"),
	   "as it was");
	ok(settings_kept("a", &kept) == 0 && kept.timeout_ms == 700 && kept.swap && !strcmp(kept.name, "a"),
	   "whoever asks is told");
	free((void *)(uintptr_t)kept.donors.items[0]);
	free((void *)(uintptr_t)kept.donors.items[1]);
	ok(settings_kept("b", &kept) == -EINVAL && settings_kept("../a", &kept) == -EINVAL,
	   "but not of what is not there");
	ok(settings_of("--name=a --adopt --spin-us=20") == 0 && settings.spin_us == 20 && settings.depth == 7,
	   "an option that is given now wins");
	ok(settings_of("--name=a --adopt --size=16M") == -EINVAL, "but not another size");
	ok(settings_of("--name=a --adopt --donor=tcp://h") == -EINVAL, "nor donors");
	ok(settings_of("--name=b --adopt") == -EINVAL, "a name that is not there");
	ok(settings_of("--name=b --remove") == 0, "to be removed it needs no options");
	ok(settings_of("--name=a --size=8M --memory --backup=/var/b") == -EINVAL, "memory has no backup");
	settings_of("--name=c --size=8M --memory");
	keep(base, "c");
	ok(settings_of("--name=c --remove") == 0 && settings.memory, "memory is kept as well");
	forget(base, "a");
	forget(base, "c");
}

int main(void)
{
	char base[] = "/tmp/farpage-settings-XXXXXX";

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	if (!mkdtemp(base))
		return EXIT_FAILURE;
	setenv("FARPAGE_RUNTIME", base, 1);
	test_sizes();
	test_stores();
	test_not_kept();
	test_kept(base);
	rmdir(base);
	return tap_done();
}
