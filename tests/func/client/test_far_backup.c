/*
 * A store on real donors with a backup on the local disk. Whichever donor dies, pages on the disk are read right and
 * return to donors when there are some. Pages without room on donors are written to the disk. A wrong page on the disk
 * is an error. No file is left at the end.
 */
#include "client/donor/operate.h"
#include "common/clock.h"
#include "tests/func/client/flips.h"
#include "tests/func/client/traffic.h"
#include "tests/lib/folder.h"

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
static const char *path;

static void open_backed(struct rig *rig, unsigned donors, unsigned replicas)
{
	rig_donors(rig, donors, "32M");
	rig->config.replicas = replicas;
	rig->config.backup = path;
	rig_open(rig);
	log_begin();
}

/* Starts the first @count donors again, without slabs. */
static void donors_again(struct rig *rig, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		donor_again(&rig->donors[i]);
}

static bool is_gone(void)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

/* Kills all donors of every page. Then they return without slabs. */
static void kept_pages_return_to_donors_that_return(unsigned donors, unsigned replicas)
{
	struct store_stats stats;
	struct rig rig;
	uint64_t told;

	open_backed(&rig, donors, replicas);
	ok(is_gone(), "%u donors, %u replicas: the backup has no name", donors, replicas);
	traffic_begin(&traffic, &rig, 7);
	traffic_run(&traffic, 300);
	ok(rig_becomes(&rig, backup_behind, 0) && rig_becomes(&rig, backup_pages, TRAFFIC_PAGES),
	   "all pages are on the backup");
	for (unsigned i = 0; i < donors; i++)
		donor_kill(&rig.donors[i]);
	ok(!traffic_check(&traffic), "every page is right once all donors are killed");
	ok(rig_becomes(&rig, kept_pages, TRAFFIC_PAGES),
	   "all pages are on the backup alone once all donors are killed");
	stats = rig_stats(&rig);
	/* The line comes after the figure. */
	ok(!stats.lost_pages && stats.backup_reads >= TRAFFIC_PAGES && log_wait(KEPT, 1, &told),
	   "no page is lost when all donors are killed, and a line reports the kept pages");
	donors_again(&rig, donors);
	/* A page is counted as returned after it is no longer kept. */
	ok(rig_becomes(&rig, kept_pages, 0) && rig_becomes(&rig, returned_pages, TRAFFIC_PAGES) &&
	       rig_becomes(&rig, pages_live, TRAFFIC_PAGES),
	   "all pages return to donors that were started again");
	traffic_run(&traffic, 300);
	stats = rig_stats(&rig);
	ok(traffic_good(&traffic) && !stats.checksum_errors && rig_stats(&rig).backup_reads == stats.backup_reads,
	   "returned pages are read from donors, and right");
	rig_becomes(&rig, backup_behind, 0);
	for (unsigned i = 0; i < donors && replicas == 2; i++)
		donor_kill(&rig.donors[i]);
	if (replicas == 2)
		ok(rig_becomes(&rig, kept_pages, TRAFFIC_PAGES) && !traffic_check(&traffic),
		   "every page is right once all donors are killed a second time");
	log_show();
	rig_close(&rig);
}

/* A donor dies while pages are read and written. */
static void donor_killed_amid_requests_loses_no_page(void)
{
	struct rig rig;

	open_backed(&rig, 2, 1);
	traffic_begin(&traffic, &rig, 8);
	ok(rig_becomes(&rig, backup_behind, 0), "all pages are on the backup before one of two donors is killed");
	donor_kill(&rig.donors[0]);
	traffic_run(&traffic, 1500);
	ok(traffic_good(&traffic), "all requests and pages are right while one of two donors is killed (%u requests)",
	   traffic.done);
	ok(rig_becomes(&rig, kept_pages, 0) && !rig_stats(&rig).lost_pages,
	   "the pages of a killed donor are brought to the other donor");
	ok(!traffic_check(&traffic), "every page is right on the remaining donor");
	log_show();
	rig_close(&rig);
}

/* All donors are killed. The store continues with its old pages, and takes new ones. */
static void store_goes_on_without_donors(unsigned donors, unsigned replicas)
{
	struct store_stats stats;
	struct rig rig;

	open_backed(&rig, donors, replicas);
	traffic_begin(&traffic, &rig, 9);
	ok(rig_becomes(&rig, backup_behind, 0), "%u donors, %u replicas: all pages are on the backup", donors,
	   replicas);
	for (unsigned i = 0; i < donors; i++)
		donor_kill(&rig.donors[i]);
	traffic_run(&traffic, 1500);
	stats = rig_stats(&rig);
	ok(traffic_good(&traffic) && stats.backup_writes && !stats.lost_pages,
	   "all of %u requests are carried out while all donors are killed", traffic.done);
	ok(log_count("written to the backup") == 1, "writes to the backup alone are reported once");
	ok(rig_put(&rig, TRAFFIC_PAGES, 1) == 0 && rig_has(&rig, TRAFFIC_PAGES, 1) &&
	       rig_stats(&rig).kept_pages == TRAFFIC_PAGES + 1,
	   "a page first written without donors is read back");
	donors_again(&rig, donors);
	traffic_run(&traffic, 500);
	ok(rig_becomes(&rig, kept_pages, 0) && rig_becomes(&rig, pages_live, TRAFFIC_PAGES + 1) &&
	       traffic_good(&traffic),
	   "all pages return to restarted donors amid requests");
	stats = rig_stats(&rig);
	traffic_run(&traffic, 300);
	ok(rig_stats(&rig).backup_writes == stats.backup_writes && !traffic.failed,
	   "writes go to donors again after all pages have returned");
	log_show();
	rig_close(&rig);
}

/* Donors have room for half of the written pages. */
static void pages_without_room_live_on_the_backup(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "2M");
	rig.config.backup = path;
	rig_open(&rig);
	log_begin();
	traffic_begin(&traffic, &rig, 10);
	traffic_run(&traffic, 500);
	ok(traffic_good(&traffic) && rig_stats(&rig).backup_writes && rig_stats(&rig).kept_pages >= TRAFFIC_PAGES / 2,
	   "pages that find no room on donors are on the backup alone, and all pages are right");
	store_discard(rig.store, 0, TRAFFIC_PAGES);
	ok(rig_becomes(&rig, kept_pages, 0) && rig_becomes(&rig, bytes_leased, 0),
	   "discarded pages are neither on the backup nor on donors");
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

/* The contents of the disk were changed. */
static void wrong_page_on_the_backup_is_an_error(void)
{
	struct rig rig;
	struct stat status;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	rig_open(&rig);
	log_begin();
	ok(rig_put_run(&rig, 0, 8, 1) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "written pages are on the named backup");
	ok(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600, "a named backup is a file of mode 0600");
	change_byte(3);
	donor_kill(&rig.donors[0]);
	ok(rig_has(&rig, 2, 1), "a page is read right from the backup once its donor is killed");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "a page that is wrong on the disk fails with -EBADMSG");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EIO && rig_stats(&rig).lost_pages == 1 &&
	       log_count("does not have page 3") == 1,
	   "a page that is wrong on the disk is lost, and a line reports it");
	ok(rig_read(&rig, 4, 4, rig.bytes) == 0 && rig_is(rig.bytes, 4, 1) && rig_is(rig.bytes + 3 * STORE_PAGE, 7, 1),
	   "pages beside a page that is wrong on the disk are right");
	store_discard(rig.store, 5, 1);
	ok(rig_has(&rig, 5, 0), "a kept page that is discarded reads as zero");
	log_show();
	rig_shut(&rig, false);
	ok(is_gone(), "a backup closed for good leaves no file");
	rig_close(&rig);
}

/* The disk refuses writes past its end, here the limit on the size of files. */
static void pages_that_the_disk_refused_are_errors(void)
{
	struct rlimit limit, none;
	struct rig rig;

	open_backed(&rig, 1, 1);
	for (uint64_t page = 0; page < 8; page++)
		rig_fill(rig.bytes + page * STORE_PAGE, page, 1);
	ok(rig_write(&rig, 0, 4, rig.bytes) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "pages are on the backup before the disk refuses writes");
	getrlimit(RLIMIT_FSIZE, &none);
	limit = none;
	limit.rlim_cur = 4 * STORE_PAGE;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	ok(rig_write(&rig, 4, 4, rig.bytes + 4 * STORE_PAGE) == 0 && rig_becomes(&rig, backup_behind, 4),
	   "pages that the disk refuses are written to their donor and are missed");
	donor_kill(&rig.donors[0]);
	ok(rig_becomes(&rig, kept_pages, 8), "all pages, also missed pages, are kept once the donor is killed");
	sleep_ms(2500); /* two rounds of the search for pages that the disk has missed */
	ok(store_same(rig.store, 3, rig.bytes + 3 * STORE_PAGE) && rig_stats(&rig).backup_behind == 4,
	   "store_same() recognises a kept page that is on the disk");
	ok(!store_same(rig.store, 6, rig.bytes + 6 * STORE_PAGE),
	   "store_same() does not recognise a page that the disk has missed");
	setrlimit(RLIMIT_FSIZE, &none);
	ok(rig_write(&rig, 6, 1, rig.bytes + 6 * STORE_PAGE) == 0 && rig_has(&rig, 6, 1),
	   "a missed page is read back after it was written again");
	ok(store_same(rig.store, 6, rig.bytes) && rig_becomes(&rig, backup_behind, 3),
	   "store_same() recognises a missed page that was written again");
	ok(rig_read(&rig, 7, 1, rig.bytes) == -EBADMSG, "a page that neither disk nor donor has fails with -EBADMSG");
	ok(rig_becomes(&rig, backup_behind, 2), "a lost page no longer counts as missed");
	log_show();
	rig_close(&rig);
}

/* A bit on the only donor is wrong. */
static void wrong_page_on_its_donor_is_mended_from_the_backup(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig.config.backup = path;
	rig_open(&rig);
	log_begin();
	flips_at(1);
	ok(rig_put(&rig, 3, 1) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "a page with a wrong bit on its donor is written");
	ok(rig_has(&rig, 3, 1), "a page with a wrong bit on its donor is read right from the backup");
	ok(rig_becomes(&rig, repaired_pages, 1) && rig_stats(&rig).backup_reads == 1,
	   "a page with a wrong bit on its donor is mended from the backup");
	ok(rig_has(&rig, 3, 1) && rig_stats(&rig).backup_reads == 1, "a mended page is read from its donor again");
	log_show();
	rig_close(&rig);
}

/* The donor does not answer, and may come back. */
static void silent_donors_page_is_read_from_the_backup(void)
{
	uint64_t begun;
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig.config.timeout_ms = 60000;
	rig.config.fabric.io_ms = 300;
	rig.config.backup = path;
	rig_open(&rig);
	ok(rig_put(&rig, 3, 1) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "a page of a donor that falls silent later is on the backup");
	kill(rig.donors[0].pid, SIGSTOP);
	begun = clock_now();
	ok(rig_has(&rig, 3, 1) && clock_now() - begun < 30000 * MS,
	   "a page of a silent donor is read from the backup without waiting for the donor's loss");
	kill(rig.donors[0].pid, SIGCONT);
	ok(!rig_stats(&rig).kept_pages && !rig_stats(&rig).lost_pages,
	   "a silent donor's pages are neither kept nor lost");
	rig_close(&rig);
}

/* The process is killed, and the donor of half of its pages dies before the next process starts. */
static void killed_process_leaves_its_backup_to_the_next(void)
{
	struct rig rig;
	int status;
	pid_t child;

	rig_donors(&rig, 2, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	child = fork();
	if (child == 0) {
		rig_open(&rig);
		for (uint64_t page = 0; page < RIG_BUFFER_PAGES; page += STORE_RUN_MAX)
			if (rig_put_run(&rig, page, STORE_RUN_MAX, 1))
				_exit(1);
		if (!rig_becomes(&rig, backup_behind, 0))
			_exit(2);
		raise(SIGKILL);
	}
	ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "a process writes pages and is killed");
	ok(!is_gone(), "the backup of a killed process still has its name");
	donor_kill(&rig.donors[1]);
	log_begin();
	rig.config.backup = NULL;
	ok(rig_try(&rig) == -EINVAL && log_count("give the same backup") == 1,
	   "a store with pages on a backup is not adopted without the backup");
	rig.config.backup = path;
	rig_open(&rig);
	ok(!rig_wrong(&rig, 0, RIG_BUFFER_PAGES, 1) && !rig_stats(&rig).lost_pages,
	   "every page of a store adopted with its backup is right");
	ok(rig_becomes(&rig, kept_pages, 0) && rig_becomes(&rig, backup_behind, 0),
	   "kept pages move to the remaining donor, and the backup has all pages");
	rig_shut(&rig, true);
	ok(!is_gone(), "a backup left to another process keeps its name");
	rig_open(&rig);
	ok(!rig_wrong(&rig, 0, RIG_BUFFER_PAGES, 1) && !rig_stats(&rig).lost_pages,
	   "every page is right after a second adoption");
	log_show();
	rig_shut(&rig, false);
	ok(is_gone(), "a backup closed for good after adoptions leaves no file");
	rig_close(&rig);
}

/* The process ends before all its donors. The next process finds no donor, or donors without slabs. */
static void store_is_adopted_from_the_backup_alone(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.timeout_ms = 1000;
	rig.config.backup = path;
	rig_open(&rig);
	ok(rig_put_run(&rig, 0, 8, 1) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "pages are on the backup before the process ends");
	rig_shut(&rig, true);
	donor_kill(&rig.donors[0]);
	log_begin();
	ok(rig_try(&rig) < 0 && log_count("cannot be adopted"),
	   "a store whose only donor does not answer is not adopted");
	donors_again(&rig, 1);
	rig_open(&rig);
	ok(!rig_wrong(&rig, 0, 8, 1) && !rig_stats(&rig).lost_pages && rig_becomes(&rig, kept_pages, 0),
	   "a store whose restarted donor has no slab is adopted from the backup, and its pages return");
	rig_becomes(&rig, backup_behind, 0);
	donor_kill(&rig.donors[0]);
	ok(rig_becomes(&rig, kept_pages, 8) && rig_put(&rig, 0, 2) == 0, "a page is written while no donor is left");
	rig_shut(&rig, true);
	rig_open(&rig);
	ok(rig_has(&rig, 0, 2) && !rig_wrong(&rig, 1, 7, 1) && !rig_stats(&rig).lost_pages,
	   "a store without pages on donors is adopted without any donor");
	ok(rig_put(&rig, 3, 3) == 0 && rig_has(&rig, 3, 3), "a page is written after an adoption without donors");
	log_show();
	rig_shut(&rig, false);
	rig_close(&rig);
}

static int try_with(struct rig *rig, const char *backup)
{
	int status;

	rig->config.backup = backup;
	log_begin();
	status = rig_try(rig);
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

/* The only donor takes its memory back. */
static void taken_memory_leaves_pages_on_the_backup(void)
{
	struct rig rig;

	open_backed(&rig, 1, 1);
	traffic_begin(&traffic, &rig, 11);
	ok(rig_becomes(&rig, backup_behind, 0), "all pages are on the backup before the only donor takes its memory");
	ok(drain(&rig, WIRE_DRAIN_FORCE) && rig_becomes(&rig, kept_pages, TRAFFIC_PAGES),
	   "a donor that takes its memory back leaves all pages on the backup alone");
	ok(!traffic_check(&traffic) && !rig_stats(&rig).lost_pages,
	   "every page is right after its donor took its memory, and none is lost");
	ok(drain(&rig, WIRE_DRAIN_END) && rig_becomes(&rig, kept_pages, 0) && !traffic_check(&traffic),
	   "all pages return to a donor that lends again after taking its memory");
	log_show();
	rig_close(&rig);
}

/* The only donor is drained without a deadline, and requests continue. */
static void drained_donor_leaves_pages_on_the_backup(void)
{
	struct store_stats stats;
	struct rig rig;

	open_backed(&rig, 1, 1);
	traffic_begin(&traffic, &rig, 12);
	ok(drain(&rig, WIRE_DRAIN_WAIT), "the only donor accepts a drain without a deadline");
	traffic_run(&traffic, 1500);
	ok(rig_becomes(&rig, kept_pages, TRAFFIC_PAGES) && rig_becomes(&rig, bytes_leased, 0),
	   "all pages go to the backup amid %u requests, and the drained donor has its memory", traffic.done);
	traffic_run(&traffic, 300);
	stats = rig_stats(&rig);
	ok(traffic_good(&traffic) && !stats.lost_pages && !stats.checksum_errors,
	   "every request during the drain is carried out, and every page is right");
	ok(log_count("no other donor has room") == 1, "a drain without room on other donors is reported once");
	ok(drain(&rig, WIRE_DRAIN_END) && rig_becomes(&rig, kept_pages, 0) && !traffic_check(&traffic),
	   "all pages return to a donor that lends again after a drain");
	stats = rig_stats(&rig);
	traffic_run(&traffic, 300);
	ok(!traffic.wrong && !traffic.failed && rig_stats(&rig).backup_writes == stats.backup_writes,
	   "writes go to the donor again after the drain has ended");
	log_show();
	rig_close(&rig);
}

/* Paths that cannot be a backup. */
static void unusable_backups_are_refused(void)
{
	struct rig rig, other;
	char bytes[6];
	int fd;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	ok(try_with(&rig, folder_path("no/such")) == -ENOENT, "a backup in a missing folder is refused with -ENOENT");
	ok(try_with(&rig, folder()) == -EINVAL, "a folder is refused as a backup");
	ok(try_with(&rig, "/dev/null") == -EINVAL, "a character device is refused as a backup");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ok(fd >= 0 && write(fd, "thesis", 6) == 6 && try_with(&rig, path) == -EEXIST && pread(fd, bytes, 6, 0) == 6 &&
	       !memcmp(bytes, "thesis", 6),
	   "a file of other contents is refused as a backup and left unchanged");
	ok(ftruncate(fd, 0) == 0 && try_with(&rig, path) == 0, "an empty file is accepted as a backup");
	close(fd);
	rig.config.backup = path;
	rig_open(&rig);
	other = rig;
	rig_state(&other);
	ok(try_with(&other, path) == -EBUSY && !is_gone(), "a backup in use by another store is refused with -EBUSY");
	other.config.state_file = NULL;
	ok(try_with(&other, path) == 0 && !is_gone(), "a store without a state file opens beside the named backup");
	close(other.state_fd);
	rig_close(&rig);
	ok(is_gone(), "no backup file is left after refusals and use");
}

/* A killed process keeps its file open for a while, here through a child. */
static void adoption_waits_for_a_locked_backup(void)
{
	struct rig rig;
	pid_t child;
	int fd;

	rig_donors(&rig, 1, "32M");
	rig_state(&rig);
	rig.config.backup = path;
	rig_open(&rig);
	ok(rig_put(&rig, 3, 1) == 0 && rig_becomes(&rig, backup_behind, 0),
	   "a page is on the backup before the store is left");
	rig_shut(&rig, true);
	log_begin();
	fd = open(path, O_RDWR | O_CLOEXEC);
	child = fork();
	if (child == 0) {
		flock(fd, LOCK_EX);
		raise(SIGSTOP);
		sleep_ms(300);
		_exit(0);
	}
	close(fd);
	waitpid(child, NULL, WUNTRACED);
	kill(child, SIGCONT);
	rig_open(&rig);
	ok(waitpid(child, NULL, WNOHANG) == child, "adoption waits until the backup is unlocked");
	ok(rig_has(&rig, 3, 1), "a page is read right after adoption waited for the backup");
	rig_shut(&rig, true);
	rig.config.state_file = NULL;
	ok(try_with(&rig, path) == 0 && !is_gone(), "a store without a state file opens beside a left backup");
	rig_state(&rig);
	ok(try_with(&rig, path) == -EEXIST, "a backup that can still be adopted is refused for another store");
	unlink(path);
	log_show();
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	path = folder_path("backup");
	killed_process_leaves_its_backup_to_the_next(); /* comes first, because it forks */
	kept_pages_return_to_donors_that_return(1, 1);
	kept_pages_return_to_donors_that_return(2, 2);
	donor_killed_amid_requests_loses_no_page();
	store_goes_on_without_donors(1, 1);
	store_goes_on_without_donors(2, 2);
	pages_without_room_live_on_the_backup();
	wrong_page_on_the_backup_is_an_error();
	pages_that_the_disk_refused_are_errors();
	wrong_page_on_its_donor_is_mended_from_the_backup();
	silent_donors_page_is_read_from_the_backup();
	taken_memory_leaves_pages_on_the_backup();
	drained_donor_leaves_pages_on_the_backup();
	store_is_adopted_from_the_backup_alone();
	unusable_backups_are_refused();
	adoption_waits_for_a_locked_backup();
	ok(rmdir(folder()) == 0, "the folder of the backups is empty at the end");
	return tap_done();
}
