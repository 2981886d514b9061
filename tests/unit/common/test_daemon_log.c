/*
 * daemon_log: lines to the journal are entries with fields, and lines to a file begin with the time. This test has a
 * socket in place of the journal's.
 */
#include "common/daemon_log.h"
#include "common/log.h"
#include "tests/lib/folder.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <sys/socket.h>
#include <sys/un.h>

static char got[1 << 14];
static int stream[2]; /* a pipe: this program's standard error, as journald makes one */

/* Returns what has come to @fd, which does not block: the text in a pipe, or one entry. */
static const char *take(int fd)
{
	ssize_t length = read(fd, got, sizeof got - 1);

	got[length > 0 ? length : 0] = '\0';
	return got;
}

static int journal_open(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
		tap_bail("no socket at %s", path);
	return fd;
}

/* Makes @fd the journal's stream, as systemd does for a service. */
static void stream_set(int fd)
{
	struct stat stat;
	char text[64];

	fstat(fd, &stat);
	snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino);
	setenv("JOURNAL_STREAM", text, 1);
	log_set_fd(fd);
}

static void entries_have_fields(int journal)
{
	log_warning("memory is %s", "short");
	ok(!strcmp(take(journal), "PRIORITY=4\nSYSLOG_IDENTIFIER=farpage-test\nMESSAGE=memory is short\n"),
	   "a line is an entry with priority, name and text");
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = "0123456789abcdef", .donor = "tcp://10.0.0.7", .client = "c1"),
		  "client %s has come", "c1");
	ok(!strcmp(take(journal), "PRIORITY=6\nSYSLOG_IDENTIFIER=farpage-test\nMESSAGE=client c1 has come\n"
				  "MESSAGE_ID=0123456789abcdef\nDONOR=tcp://10.0.0.7\nCLIENT=c1\n"),
	   "an event is an entry with MESSAGE_ID, DONOR and CLIENT");
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.device = "/dev/ublkb0"), "lost");
	ok(!strcmp(take(journal), "PRIORITY=3\nSYSLOG_IDENTIFIER=farpage-test\nMESSAGE=lost\nDEVICE=/dev/ublkb0\n"),
	   "a field without a value is left out");
	log_debug("quiet");
	ok(!*take(journal), "a line below the level is no entry");
	ok(!*take(stream[0]), "entries are not written to standard error");
}

static void values_forge_no_fields(int journal)
{
	char name[1000];

	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = "eve\nMESSAGE_ID=forged"), "client %s", "eve\nPRIORITY=0");
	ok(!strcmp(take(journal), "PRIORITY=6\nSYSLOG_IDENTIFIER=farpage-test\nMESSAGE=client eve?PRIORITY=0\n"
				  "CLIENT=eve?MESSAGE_ID=forged\n"),
	   "a newline in a value begins no field");
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = name, .donor = name, .client = name, .device = name), "%s%s%s", name,
		  name, name);
	take(journal);
	ok(strlen(got) <= 2048 && strlen(got) > 1900 && got[strlen(got) - 1] == '\n' &&
	       strstr(got, "...\nMESSAGE_ID=x"),
	   "long values are cut, and the entry ends with a newline");
}

/* journald is stopped: nobody reads its socket. */
static void full_journal_does_not_wait(int journal)
{
	unsigned entries = 0, lines = 0;

	alarm(20); /* ends the test if a line waits */
	for (unsigned i = 0; i < 5000; i++) {
		log_info("%0100u", i);
		for (const char *text = take(stream[0]); (text = strchr(text, '\n')); text++)
			lines++;
	}
	alarm(0);
	while (*take(journal))
		entries++;
	ok(entries > 0 && lines > 0 && entries + lines == 5000,
	   "lines that a full journal does not take are written to standard error (%u and %u)", entries, lines);
}

static void missing_journal_loses_nothing(int journal, const char *path)
{
	close(journal);
	unlink(path);
	errno = EBUSY;
	log_info("gone: %m");
	ok(errno == EBUSY, "a line that cannot be sent keeps errno");
	ok(!strcmp(take(stream[0]), "<6>farpage-test: gone: Device or resource busy\n"),
	   "a line without a journal is written to standard error, with its priority");
	journal = journal_open(path);
	log_info("back");
	ok(strstr(take(journal), "MESSAGE=back\n"), "a restarted journal gets entries again");
	close(journal);
}

static bool is_stamped(const char *text, const char *rest)
{
	regex_t regex;
	char pattern[256];
	bool matches;

	snprintf(pattern, sizeof pattern,
		 "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z %s\n$", rest);
	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB))
		return false;
	matches = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return matches;
}

/* A daemon that has started replaces the journal's stream by the kernel's log (dup2), which is a character device. */
static void journal_gets_entries_after_the_stream_is_replaced(int journal)
{
	int kept = fcntl(stream[1], F_DUPFD_CLOEXEC, 0), null = open("/dev/null", O_WRONLY | O_CLOEXEC), other[2];

	dup2(null, stream[1]);
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = "0123", .device = "/dev/ublkb0"), "lost");
	ok(!strcmp(take(journal), "PRIORITY=3\nSYSLOG_IDENTIFIER=farpage-test\nMESSAGE=lost\nMESSAGE_ID=0123\n"
				  "DEVICE=/dev/ublkb0\n"),
	   "an event is still an entry after the journal's stream was replaced");
	dup2(kept, stream[1]);
	close(kept);
	close(null);
	if (pipe2(other, O_CLOEXEC))
		tap_bail("no pipe");
	log_set_fd(other[1]);
	log_info("elsewhere");
	ok(!*take(journal) && !strcmp(take(other[0]), "farpage-test: elsewhere\n"),
	   "a program whose standard error is not the journal at its start sends no entries");
	close(other[0]);
	close(other[1]);
	stream_set(stream[1]);
}

/* A daemon that has started writes its log to a file that its user has named. */
static void file_in_place_of_the_journal_has_the_time(int journal)
{
	const char *path = folder_path("log");
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600), reader;

	dup2(file, stream[1]);
	log_info("moved");
	reader = open(path, O_RDONLY | O_CLOEXEC);
	ok(is_stamped(take(reader), "<6>farpage-test: moved"), "a line to a file begins with the time: %s", got);
	ok(!*take(journal), "a line to a file is no entry");
	unsetenv("JOURNAL_STREAM");
	log_set_fd(stream[1]);
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = "0123"), "an event");
	ok(is_stamped(take(reader), "farpage-test: an event"), "an event in a file is a line with the time: %s", got);
	daemon_log_stamp(false);
	log_info("starting");
	ok(!strcmp(take(reader), "farpage-test: starting\n"),
	   "a line for the process that waits for the start has no time");
	daemon_log_stamp(true);
	log_info("ready");
	ok(is_stamped(take(reader), "farpage-test: ready"), "a line after the start has the time again: %s", got);
	log_set_daemon(NULL);
	log_info("plain");
	ok(!strcmp(take(reader), "farpage-test: plain\n"), "a line of a program that is no daemon has no time");
	close(reader);
	close(file);
}

static void pipe_has_plain_lines(void)
{
	unsetenv("JOURNAL_STREAM");
	log_set_fd(stream[1]);
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = "0123", .client = "c1"), "an event");
	ok(!strcmp(take(stream[0]), "farpage-test: an event\n"), "an event in a pipe is a plain line");
}

int main(void)
{
	const char *path = folder_path("journal");
	int journal = journal_open(path);

	unsetenv("JOURNAL_STREAM");
	if (pipe2(stream, O_CLOEXEC) || fcntl(stream[0], F_SETFL, O_NONBLOCK))
		return tap_skip_all("no pipe");
	log_setup("farpage-test", LOG_LEVEL_INFO);
	daemon_log_open(path);
	pipe_has_plain_lines();
	stream_set(stream[1]);
	entries_have_fields(journal);
	values_forge_no_fields(journal);
	journal_gets_entries_after_the_stream_is_replaced(journal);
	full_journal_does_not_wait(journal);
	missing_journal_loses_nothing(journal, path);
	journal = journal_open(folder_path("other"));
	file_in_place_of_the_journal_has_the_time(journal);
	return tap_done();
}
