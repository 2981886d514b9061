/*
 * log: see log.h.
 *
 * Theory of operation. A line consists of priority, name, text and newline. The functions in `struct log_daemon` can
 * add the time, or send the text to the journal. log_line() builds the line in a buffer on the stack and writes it by
 * one write(2), so that lines of several threads or processes do not mix. Control characters are replaced by '?'. So
 * text from a peer or from a file can neither look like a second line nor control a terminal. A line that is too long
 * ends in "...".
 *
 * Threads that send heartbeats or answer page faults also log, so logging must not block for long. If nobody reads the
 * pipe or terminal, it becomes full. The first line then waits up to LOG_PATIENCE_NS, and is dropped if there is still
 * no space. Further lines are dropped without waiting, until a line can be written again. Errors of write(2) are
 * ignored, because they cannot be reported anywhere.
 *
 * Stdio and the locale of the C library are not used, because a program may have them in its far memory (format.h).
 *
 * Threads. log_setup() and log_set_fd() run before other threads start. After that, their settings do not change. The
 * level may change at any time.
 */
#include "common/log.h"

#include "common/ascii.h"
#include "common/format.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_MAX 1024
/* The longest wait for a full pipe, and so the longest delay of a heartbeat by a log line. */
#define LOG_PATIENCE_NS 200000000

static struct {
	const char *name;
	_Atomic enum log_level level;
	int fd;
	bool journal; /* `fd` was the journal when it was set */
	const struct log_daemon *daemon;
} settings = {.name = "farpage", .level = LOG_LEVEL_WARNING, .fd = STDERR_FILENO};

/* The priorities of syslog(3), written as in sd-daemon(3). */
static const char *const priorities[] = {
    [LOG_LEVEL_ERROR] = "<3>",
    [LOG_LEVEL_WARNING] = "<4>",
    [LOG_LEVEL_INFO] = "<6>",
    [LOG_LEVEL_DEBUG] = "<7>",
};

/* Returns true if @fd is the journal. JOURNAL_STREAM=DEVICE:INODE names the journal's stream (systemd.exec(5)). A
   child process inherits this variable, but may have another standard error. So the device and inode of @fd are
   compared with the variable. */
static bool log_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t device, inode;
	struct stat stat;

	if (!stream || fstat(fd, &stat) < 0)
		return false;
	device = ascii_number(&stream);
	if (*stream++ != ':')
		return false;
	inode = ascii_number(&stream);
	return stat.st_dev == device && stat.st_ino == inode;
}

void log_set_fd(int fd)
{
	int saved = errno;

	settings.fd = fd;
	settings.journal = log_is_journal(fd);
	errno = saved;
}

void log_set_level(enum log_level level)
{
	settings.level = level;
}

void log_set_daemon(const struct log_daemon *daemon)
{
	settings.daemon = daemon;
}

void log_setup(const char *name, enum log_level level)
{
	settings.name = name;
	settings.level = level;
	log_set_fd(settings.fd);
}

/* Leaves space for the newline. */
__attribute__((format(printf, 3, 0))) static void log_append(char line[LOG_LINE_MAX], size_t *length,
							     const char *format, va_list arguments)
{
	size_t room = LOG_LINE_MAX - 1 - *length;
	size_t wanted = format_list(line + *length, room, format, arguments);

	if (wanted < room) {
		*length += wanted;
		return;
	}
	*length += room - 1;
	memcpy(line + *length - 3, "...", 3);
}

/* Returns true if a write to the descriptor, a file of this mode, may block, as for pipes, sockets and terminals. Other
   files are not polled: for the kernel's log, /dev/kmsg, poll(2) never reports that it is writable, although a write
   never blocks. */
static bool log_may_wait(mode_t mode)
{
	return S_ISFIFO(mode) || S_ISSOCK(mode) || (S_ISCHR(mode) && isatty(settings.fd));
}

/* Waits briefly until the descriptor is writable. Returns true if it is. Calls ppoll by syscall(2), because the
   simulation of time (tests/sim) replaces ppoll(2). */
static bool log_has_room(mode_t mode)
{
	static _Atomic bool stuffed;
	struct pollfd reader = {.fd = settings.fd, .events = POLLOUT};
	struct timespec patience = {.tv_nsec = atomic_load(&stuffed) ? 0 : LOG_PATIENCE_NS};
	long ready;

	if (!log_may_wait(mode))
		return true;
	while ((ready = syscall(SYS_ppoll, &reader, 1, &patience, NULL, 0)) < 0 && errno == EINTR)
		;
	atomic_store(&stuffed, ready != 1);
	return ready == 1;
}

/* Writes what comes before the text of a line. Returns its length. */
static size_t log_prefix(char line[LOG_LINE_MAX], enum log_level level, mode_t mode)
{
	size_t stamped = settings.daemon && S_ISREG(mode) ? settings.daemon->stamp(line, LOG_LINE_MAX / 4) : 0;
	size_t length = format_text(line + stamped, LOG_LINE_MAX / 4,
				    "%s%s: ", settings.journal ? priorities[level] : "", settings.name);

	return stamped + (length < LOG_LINE_MAX / 4 ? length : LOG_LINE_MAX / 4 - 1);
}

/* Returns false if the line must be written to the descriptor. A daemon that moved its log from the journal to the
   kernel's log still sends its lines to the journal, where they have fields. */
static bool log_send(enum log_level level, const struct log_fields *fields, const char *text, size_t length,
		     mode_t mode)
{
	return settings.daemon && settings.journal && !S_ISREG(mode) &&
	       settings.daemon->send(level, settings.name, fields, text, length);
}

static void log_line(enum log_level level, const struct log_fields *fields, const char *format, va_list arguments)
{
	if (level > settings.level)
		return;
	int saved = errno;
	char line[LOG_LINE_MAX];
	struct stat stat;
	/* The descriptor may have become another one by dup2(2) since log_set_fd(), so it is looked at
	   for each line. */
	mode_t mode = fstat(settings.fd, &stat) < 0 ? 0 : stat.st_mode;
	size_t prefix = log_prefix(line, level, mode), length = prefix;
	errno = saved; /* log_append() prints it by %m */
	log_append(line, &length, format, arguments);
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	if (!log_send(level, fields, line + prefix, length - prefix, mode)) {
		line[length++] = '\n';
		if (log_has_room(mode))
			while (write(settings.fd, line, length) < 0 && errno == EINTR)
				;
	}
	errno = saved;
}

#define LOG_FUNCTION(function, level)                                                                                  \
	void function(const char *format, ...)                                                                         \
	{                                                                                                              \
		va_list arguments;                                                                                     \
		va_start(arguments, format);                                                                           \
		log_line(level, NULL, format, arguments);                                                              \
		va_end(arguments);                                                                                     \
	}

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warning, LOG_LEVEL_WARNING)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)

void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_line(level, fields, format, arguments);
	va_end(arguments);
}

bool log_again(_Atomic uint64_t *last, uint64_t now, uint64_t pause_ns)
{
	uint64_t before = atomic_load_explicit(last, memory_order_relaxed);

	if (before && now < before + pause_ns)
		return false;
	return atomic_compare_exchange_strong(last, &before, now ? now : 1);
}
