/*
 * A store with a backup on the local disk, on real donors: whoever dies, what was on the disk is read right, and comes
 * back to donors when there are some; what no donor has room for is written there; what the disk has wrong is an error;
 * and nothing is left of it.
 */
#include "client/donor/operate.h"
#include "common/clock.h"
#include "farpage/fabric_faults.h"
#include "tests/func/client/traffic.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define KEPT "pages are on the backup"

static struct traffic traffic;
static char directory[] = "/tmp/farpage-backup-XXXXXX", path[64];

/* Until *@figure, of rig_stats(), is @wanted: whether it is, in time. */
#define becomes(rig, figure, wanted) rig_figure_is(rig, offsetof(struct store_stats, figure), wanted, wanted)

static void open_backed(struct rig *rig, unsigned donors, unsigned replicas)
{
	rig_donors(rig, donors, "32M");
	rig->config.replicas = replicas;
	rig->config.backup = path;
	rig_open(rig, "tcp");
	log_begin();
}

/* The first @count, which were killed, are started again, with nothing. */
static void donors_again(struct rig *rig, unsigned count)
{
	static const char *const arguments[] = {"--donate", "32M", "--slab", "1M", "--reserve", "1M", NULL};

	for (unsigned i = 0; i < count; i++)
		if (!rig_donor_again(rig, i, arguments))
			printf("Bail out! a donor does not start again\n"), exit(EXIT_FAILURE);
}

static bool is_gone(void)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

/* All donors of every page are killed; then they come back with nothing. */
static void test_killed(unsigned donors, unsigned replicas)
{
	struct store_stats stats;
	struct rig rig;

	open_backed(&rig, donors, replicas);
	ok(is_gone(), "%u donors, %u replicas: the backup has no name", donors, replicas);
	traffic_begin(&traffic, &rig, 7);
	traffic_run(&traffic, 300);
	ok(becomes(&rig, backup_behind, 0) && becomes(&rig, backup_pages, TRAFFIC_PAGES), "all pages are on it");
	for (unsigned i = 0; i < donors; i++)
		daemon_stop(&rig.donors[i], SIGKILL);
	ok(!traffic_check(&traffic), "all donors are killed: every page is right");
	ok(becomes(&rig, kept_pages, TRAFFIC_PAGES), "all are on the backup alone");
	stats = rig_stats(&rig);
	ok(!stats.lost_pages && stats.backup_reads >= TRAFFIC_PAGES && log_count(KEPT), "none is lost, which is told");
	donors_again(&rig, donors);
	ok(becomes(&rig, kept_pages, 0) && rig_stats(&rig).returned_pages == TRAFFIC_PAGES &&
	       becomes(&rig, pages_live, TRAFFIC_PAGES),
	   "the donors are back, and so are the pages");
	traffic_run(&traffic, 300);
	stats = rig_stats(&rig);
	ok(!traffic_check(&traffic) && !traffic.wrong && !traffic.failed && !stats.checksum_errors &&
	       rig_stats(&rig).backup_reads == stats.backup_reads,
	   "which are read there, and right");
	becomes(&rig, backup_behind, 0);
	for (unsigned i = 0; i < donors && replicas == 2; i++)
		daemon_stop(&rig.donors[i], SIGKILL);
	if (replicas == 2)
		ok(becomes(&rig, kept_pages, TRAFFIC_PAGES) && !traffic_check(&traffic), "and once more");
	log_show();
	rig_close(&rig);
}

/* The donors die while pages are read and written. */
static void test_amid(void)
{
	struct rig rig;

	open_backed(&rig, 2, 1);
	traffic_begin(&traffic, &rig, 8);
	ok(becomes(&rig, backup_behind, 0), "all pages are on the backup");
	daemon_stop(&rig.donors[0], SIGKILL);
	traffic_run(&traffic, 1500);
	ok(!traffic_check(&traffic) && !traffic.wrong && !traffic.failed,
	   "one of two donors is killed amid %u requests: all are right", traffic.done);
	ok(becomes(&rig, kept_pages, 0) && !rig_stats(&rig).lost_pages, "what it held is brought to the other one");
	ok(!traffic_check(&traffic), "and is right");
	log_show();
	rig_close(&rig);
}

/* All donors are killed, and the store goes on: pages that were far, and such as never were. */
static void test_alone(unsigned donors, unsigned replicas)
{
	struct store_stats stats;
	struct rig rig;

	open_backed(&rig, donors, replicas);
	traffic_begin(&traffic, &rig, 9);
	ok(becomes(&rig, backup_behind, 0), "%u donors, %u replicas: all pages are on the backup", donors, replicas);
	for (unsigned i = 0; i < donors; i++)
		daemon_stop(&rig.donors[i], SIGKILL);
	traffic_run(&traffic, 1500);
	stats = rig_stats(&rig);
	ok(!traffic_check(&traffic) && !traffic.wrong && !traffic.failed && stats.backup_writes && !stats.lost_pages,
	   "all are killed amid %u requests: every one is carried out", traffic.done);
	ok(log_count("written to the backup") == 1, "which is told once");
	rig_fill(rig.bytes, TRAFFIC_PAGES, 1);
	ok(rig_write(&rig, TRAFFIC_PAGES, 1, rig.bytes) == 0 && rig_read(&rig, TRAFFIC_PAGES, 1, rig.bytes) == 0 &&
	       rig_is(rig.bytes, TRAFFIC_PAGES, 1) && rig_stats(&rig).kept_pages == TRAFFIC_PAGES + 1,
	   "a page that was never far is read as it was written");
	donors_again(&rig, donors);
	traffic_run(&traffic, 500);
	ok(becomes(&rig, kept_pages, 0) && becomes(&rig, pages_live, TRAFFIC_PAGES + 1) && !traffic_check(&traffic) &&
	       !traffic.wrong && !traffic.failed,
	   "the donors are back, and so are all pages, amid traffic");
	stats = rig_stats(&rig);
	traffic_run(&traffic, 300);
	ok(rig_stats(&rig).backup_writes == stats.backup_writes && !traffic.failed,
	   "from then on pages are written to them");
	log_show();
	rig_close(&rig);
}

/* Donors have room for half of what is written. */
static void test_crowded(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "2M");
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	log_begin();
	traffic_begin(&traffic, &rig, 10);
	traffic_run(&traffic, 500);
	ok(!traffic_check(&traffic) && !traffic.wrong && !traffic.failed && rig_stats(&rig).backup_writes &&
	       rig_stats(&rig).kept_pages >= TRAFFIC_PAGES / 2,
	   "donors have room for half of the pages: the others are on the backup alone, and all are right");
	store_discard(rig.store, 0, TRAFFIC_PAGES);
	ok(becomes(&rig, kept_pages, 0) && becomes(&rig, bytes_leased, 0), "discarded they are nowhere");
	log_show();
	rig_close(&rig);
}

static void change_byte(uint64_t page)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte = 0;

	if (fd < 0 || pread(fd, &byte, 1, (off_t)(page * STORE_PAGE + 17)) != 1)
		printf("# cannot read %s\n", path);
	byte ^= 1;
	if (pwrite(fd, &byte, 1, (off_t)(page * STORE_PAGE + 17)) != 1 || fsync(fd) < 0)
		printf("# cannot change %s\n", path);
	close(fd);
}

/* What is on the disk is not what was written. */
static void test_stale(void)
{
	struct rig rig;
	struct stat status;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	log_begin();
	for (uint64_t page = 0; page < 8; page++)
		rig_fill(rig.bytes + page * STORE_PAGE, page, 1);
	ok(rig_write(&rig, 0, 8, rig.bytes) == 0 && becomes(&rig, backup_behind, 0), "pages are on the backup");
	ok(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600, "which is a file of the owner's alone");
	change_byte(3);
	daemon_stop(&rig.donors[0], SIGKILL);
	ok(rig_read(&rig, 2, 1, rig.bytes) == 0 && rig_is(rig.bytes, 2, 1), "the donor is killed: a page is right");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "one that is wrong on the disk is an error");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EIO && rig_stats(&rig).lost_pages == 1 &&
	       log_count("does not have page 3") == 1,
	   "it is lost, which is told");
	ok(rig_read(&rig, 4, 4, rig.bytes) == 0 && rig_is(rig.bytes, 4, 1) && rig_is(rig.bytes + 3 * STORE_PAGE, 7, 1),
	   "and the others are right");
	store_discard(rig.store, 5, 1);
	ok(rig_read(&rig, 5, 1, rig.bytes) == 0 && rig_is_zero(rig.bytes), "one that is discarded is zero");
	log_show();
	rig_shut(&rig, false);
	ok(is_gone(), "nothing is left of the file");
	rig_close(&rig);
}

/* The disk refuses what is past its end, here the limit on the size of files. */
static void test_refuses(void)
{
	struct rlimit limit, none;
	struct rig rig;

	open_backed(&rig, 1, 1);
	for (uint64_t page = 0; page < 8; page++)
		rig_fill(rig.bytes + page * STORE_PAGE, page, 1);
	ok(rig_write(&rig, 0, 4, rig.bytes) == 0 && becomes(&rig, backup_behind, 0), "pages are on the backup");
	getrlimit(RLIMIT_FSIZE, &none);
	limit = none;
	limit.rlim_cur = 4 * STORE_PAGE;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	ok(rig_write(&rig, 4, 4, rig.bytes + 4 * STORE_PAGE) == 0 && becomes(&rig, backup_behind, 4),
	   "it refuses others");
	daemon_stop(&rig.donors[0], SIGKILL);
	ok(becomes(&rig, kept_pages, 8), "the donor is killed");
	rig_sleep_ms(2500); /* two rounds of who looks for what the disk has missed */
	ok(store_same(rig.store, 3, rig.bytes + 3 * STORE_PAGE) && rig_stats(&rig).backup_behind == 4,
	   "who has a page that is on the disk in memory need not write it");
	ok(!store_same(rig.store, 6, rig.bytes + 6 * STORE_PAGE), "but one that is not");
	setrlimit(RLIMIT_FSIZE, &none);
	ok(rig_write(&rig, 6, 1, rig.bytes + 6 * STORE_PAGE) == 0 && rig_read(&rig, 6, 1, rig.bytes) == 0 &&
	       rig_is(rig.bytes, 6, 1),
	   "written again, it is there");
	ok(store_same(rig.store, 6, rig.bytes) && becomes(&rig, backup_behind, 3), "and need not be once more");
	ok(rig_read(&rig, 7, 1, rig.bytes) == -EBADMSG, "what nobody had, nobody has");
	ok(becomes(&rig, backup_behind, 2), "that is waited for no more");
	log_show();
	rig_close(&rig);
}

/* A donor has it wrong, and there is no other. */
static void test_mended(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig.config.fabric.faults = &faults;
	rig.config.backup = path;
	rig_open(&rig, "fault+tcp");
	log_begin();
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && becomes(&rig, backup_behind, 0),
	   "a page has a wrong bit on its donor");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1), "it is read from the backup, and right");
	ok(becomes(&rig, repaired_pages, 1) && rig_stats(&rig).backup_reads == 1, "and mended on the donor");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1) && rig_stats(&rig).backup_reads == 1,
	   "where it is read from then on");
	log_show();
	rig_close(&rig);
}

/* A donor does not answer, and may come back. */
static void test_away(void)
{
	uint64_t begun;
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig.config.timeout_ms = 60000;
	rig.config.fabric.io_ms = 300;
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && becomes(&rig, backup_behind, 0), "a page is on the backup");
	kill(rig.donors[0].pid, SIGSTOP);
	begun = clock_now();
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1) && clock_now() - begun < 30000 * MS,
	   "the donor is silent: it is read there, and its loss not waited for");
	kill(rig.donors[0].pid, SIGCONT);
	ok(!rig_stats(&rig).kept_pages && !rig_stats(&rig).lost_pages, "nothing is believed lost");
	rig_close(&rig);
}

/* A process that is killed; the donor of half of its pages dies before the next one comes. */
static void test_adopted(void)
{
	struct rig rig;
	int status;
	pid_t child;

	rig_donors(&rig, 2, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	child = fork();
	if (child == 0) {
		rig_open(&rig, "tcp");
		for (uint64_t page = 0; page < RIG_BUFFER_PAGES; page++)
			rig_fill(rig.bytes + page * STORE_PAGE, page, 1);
		for (uint64_t page = 0; page < RIG_BUFFER_PAGES; page += STORE_RUN_MAX)
			if (rig_write(&rig, page, STORE_RUN_MAX, rig.bytes + page * STORE_PAGE))
				_exit(1);
		if (!becomes(&rig, backup_behind, 0))
			_exit(2);
		raise(SIGKILL);
	}
	ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "a process writes pages and is killed");
	ok(!is_gone(), "its backup is there");
	daemon_stop(&rig.donors[1], SIGKILL);
	log_begin();
	rig.config.backup = NULL;
	ok(rig_try(&rig, "tcp") == -EINVAL && log_count("give the same backup") == 1,
	   "one of its donors is killed: it is not adopted without the backup");
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	unsigned wrong = 0;
	for (uint64_t page = 0; page < RIG_BUFFER_PAGES; page++)
		wrong += rig_read(&rig, page, 1, rig.bytes) != 0 || !rig_is(rig.bytes, page, 1);
	ok(!wrong && !rig_stats(&rig).lost_pages, "it is adopted with it, and every page is right");
	ok(becomes(&rig, kept_pages, 0) && becomes(&rig, backup_behind, 0),
	   "they come to the donor that is left, and the backup has them all");
	rig_shut(&rig, true);
	ok(!is_gone(), "it is left to another process");
	rig_open(&rig, "tcp");
	wrong = 0;
	for (uint64_t page = 0; page < RIG_BUFFER_PAGES; page++)
		wrong += rig_read(&rig, page, 1, rig.bytes) != 0 || !rig_is(rig.bytes, page, 1);
	ok(!wrong && !rig_stats(&rig).lost_pages, "and adopted, and every page is right once more");
	log_show();
	rig_shut(&rig, false);
	ok(is_gone(), "and nothing is left");
	rig_close(&rig);
}

/* The process goes after all its donors; the next one finds none, or such as have nothing. */
static void test_adopted_alone(void)
{
	unsigned wrong = 0;
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.timeout_ms = 1000;
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	for (uint64_t page = 0; page < 8; page++)
		rig_fill(rig.bytes + page * STORE_PAGE, page, 1);
	ok(rig_write(&rig, 0, 8, rig.bytes) == 0 && becomes(&rig, backup_behind, 0), "pages are on the backup");
	rig_shut(&rig, true);
	daemon_stop(&rig.donors[0], SIGKILL);
	log_begin();
	ok(rig_try(&rig, "tcp") < 0 && log_count("cannot be adopted"),
	   "the process ends, then its only donor: it is not believed dead");
	donors_again(&rig, 1);
	rig_open(&rig, "tcp");
	for (uint64_t page = 0; page < 8; page++)
		wrong += rig_read(&rig, page, 1, rig.bytes) != 0 || !rig_is(rig.bytes, page, 1);
	ok(!wrong && !rig_stats(&rig).lost_pages && becomes(&rig, kept_pages, 0),
	   "it says that it has nothing: the store is adopted from the backup");
	becomes(&rig, backup_behind, 0);
	daemon_stop(&rig.donors[0], SIGKILL);
	rig_fill(rig.bytes, 0, 2);
	ok(becomes(&rig, kept_pages, 8) && rig_write(&rig, 0, 1, rig.bytes) == 0, "it is killed, and a page written");
	rig_shut(&rig, true);
	rig_open(&rig, "tcp");
	for (uint64_t page = 0; page < 8; page++)
		wrong += rig_read(&rig, page, 1, rig.bytes) != 0 || !rig_is(rig.bytes, page, page ? 1 : 2);
	ok(!wrong && !rig_stats(&rig).lost_pages, "the next process needs no donor, for nothing was on any");
	rig_fill(rig.bytes, 3, 3);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 3),
	   "and writes, too");
	log_show();
	rig_shut(&rig, false);
	rig_close(&rig);
}

static int try_with(struct rig *rig, const char *backup)
{
	int status;

	rig->config.backup = backup;
	log_begin();
	status = rig_try(rig, "tcp");
	log_show();
	if (status == 0)
		store_close(rig->store);
	rig->store = NULL;
	return status;
}

static bool drain(const struct rig *rig, enum wire_drain what)
{
	struct wire_message question = {.type = WIRE_DRAIN, .drain = {.what = what, .deadline_ms = 1500}}, answer;
	struct operate *operate;
	bool good = operate_open(&rig->config, rig->donors[0].uri, &operate) == 0;

	good = good && operate_ask(operate, &question, &answer) == 0;
	operate_close(operate);
	return good;
}

/* The only donor needs its memory, and there is no other one. */
static void test_taken(void)
{
	struct rig rig;

	open_backed(&rig, 1, 1);
	traffic_begin(&traffic, &rig, 11);
	ok(becomes(&rig, backup_behind, 0), "all pages are on the backup");
	ok(drain(&rig, WIRE_DRAIN_FORCE) && becomes(&rig, kept_pages, TRAFFIC_PAGES),
	   "the only donor takes its memory back: all are on the backup alone");
	ok(!traffic_check(&traffic) && !rig_stats(&rig).lost_pages, "and right, and none is lost");
	ok(drain(&rig, WIRE_DRAIN_END) && becomes(&rig, kept_pages, 0) && !traffic_check(&traffic),
	   "it lends again, and they are there again");
	log_show();
	rig_close(&rig);
}

/* Likewise, and it waits for as long as that takes; nobody notices. */
static void test_drained(void)
{
	struct store_stats stats;
	struct rig rig;

	open_backed(&rig, 1, 1);
	traffic_begin(&traffic, &rig, 12);
	ok(drain(&rig, WIRE_DRAIN_WAIT), "the only donor is drained, without a deadline");
	traffic_run(&traffic, 1500);
	ok(becomes(&rig, kept_pages, TRAFFIC_PAGES) && becomes(&rig, bytes_leased, 0),
	   "amid %u requests all pages go to the backup, and it has its memory back", traffic.done);
	traffic_run(&traffic, 300);
	stats = rig_stats(&rig);
	ok(!traffic_check(&traffic) && !traffic.wrong && !traffic.failed && !stats.lost_pages && !stats.checksum_errors,
	   "every request was carried out, and right");
	ok(log_count("no other donor has room") == 1, "which is told once");
	ok(drain(&rig, WIRE_DRAIN_END) && becomes(&rig, kept_pages, 0) && !traffic_check(&traffic),
	   "it lends again, and they are there again");
	stats = rig_stats(&rig);
	traffic_run(&traffic, 300);
	ok(!traffic.wrong && !traffic.failed && rig_stats(&rig).backup_writes == stats.backup_writes,
	   "where they are written from then on");
	log_show();
	rig_close(&rig);
}

/* What cannot be a backup. */
static void test_refused(void)
{
	struct rig rig, other;
	char missing[96];
	int fd;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	snprintf(missing, sizeof missing, "%s/no/such", directory);
	ok(try_with(&rig, missing) == -ENOENT, "a folder that is not there is refused");
	ok(try_with(&rig, directory) == -EINVAL, "and a folder");
	ok(try_with(&rig, "/dev/null") == -EINVAL, "and a device that is none of blocks");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ok(fd >= 0 && write(fd, "thesis", 6) == 6 && try_with(&rig, path) == -EEXIST && pread(fd, missing, 6, 0) == 6 &&
	       !memcmp(missing, "thesis", 6),
	   "and a file that is something else, which stays as it is");
	ok(ftruncate(fd, 0) == 0 && try_with(&rig, path) == 0, "one that is empty is used");
	close(fd);
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	other = rig;
	rig_state(&other);
	ok(try_with(&other, path) == -EBUSY && !is_gone(), "and one that another store has");
	other.config.state_file = NULL;
	ok(try_with(&other, path) == 0 && !is_gone(), "but for one that nobody goes on with, which has no name");
	close(other.state_fd);
	rig_close(&rig);
	ok(is_gone(), "nothing is left");
}

/* Who was killed has its file for a while longer, here in the hands of a child of its own. */
static void test_held(void)
{
	struct rig rig;
	pid_t child;
	int fd;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	rig_open(&rig, "tcp");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && becomes(&rig, backup_behind, 0), "a page is on the backup");
	rig_shut(&rig, true);
	log_begin();
	fd = open(path, O_RDWR | O_CLOEXEC);
	child = fork();
	if (child == 0) {
		flock(fd, LOCK_EX);
		raise(SIGSTOP);
		rig_sleep_ms(300);
		_exit(0);
	}
	close(fd);
	waitpid(child, NULL, WUNTRACED);
	kill(child, SIGCONT);
	rig_open(&rig, "tcp");
	ok(waitpid(child, NULL, WNOHANG) == child, "who adopts a store waits until its backup is free");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1), "and it is right");
	rig_shut(&rig, true);
	rig.config.state_file = NULL;
	ok(try_with(&rig, path) == 0 && !is_gone(), "another store may have one without a name beside it");
	rig_state(&rig);
	ok(try_with(&rig, path) == -EEXIST, "but does not get what can yet be adopted");
	unlink(path);
	log_show();
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	log_keep();
	if (!mkdtemp(directory))
		return tap_skip_all("no folder for a backup");
	snprintf(path, sizeof path, "%s/backup", directory);
	test_adopted(); /* first, for it forks */
	test_killed(1, 1);
	test_killed(2, 2);
	test_amid();
	test_alone(1, 1);
	test_alone(2, 2);
	test_crowded();
	test_stale();
	test_refuses();
	test_mended();
	test_away();
	test_taken();
	test_drained();
	test_adopted_alone();
	test_refused();
	test_held();
	ok(rmdir(directory) == 0, "the folder is empty");
	return tap_done();
}
