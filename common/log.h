/*
 * log: writes one line per event to standard error, such as "farpage: donor tcp://10.0.0.7:7470 is gone: connection
 * reset". A line is formatted on the stack and written by one write(2). These functions allocate nothing and do not
 * change errno. Any thread.
 *
 * If standard error is systemd's journal (JOURNAL_STREAM) at log_setup(), each line begins with its priority, "<N>".
 * Daemons send entries with fields instead, and begin lines to a file with the time (daemon_log.h).
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets the program's name (a literal) and the level. Must be called before other threads start. The defaults are
   "farpage" and LOG_LEVEL_WARNING. */
void log_setup(const char *name, enum log_level level);
/* Sets the descriptor for lines. The default is 2. Must be called before other threads start. */
void log_set_fd(int fd);
/* May be called at any time. */
void log_set_level(enum log_level level);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The fields of a line in the journal. Each text may be NULL. */
struct log_fields {
	const char *id; /* MESSAGE_ID (events.h) */
	const char *donor, *client, *device;
};
#define LOG_FIELDS(...) (&(const struct log_fields){__VA_ARGS__})
/* Logs a line with fields. The fields are only in the journal, so the text must make sense alone. */
void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How a daemon logs (daemon_log.h). A program under the preload library has no such functions. */
struct log_daemon {
	/* Sends a line of @length bytes to the journal. @fields may be NULL. Returns false if the line must be written
	   to the descriptor instead. */
	bool (*send)(enum log_level level, const char *name, const struct log_fields *fields, const char *text,
		     size_t length);
	/* Writes the time and a space to @text. Returns the length, which is less than @size, or 0
	   if lines have no time. */
	size_t (*stamp)(char *text, size_t size);
};
/* Must be called before other threads start. NULL is the default. */
void log_set_daemon(const struct log_daemon *daemon);

/* Limits a line that might be logged for every page. Returns true if @pause_ns have passed since *@last. Then sets
   *@last to @now (clock_now()). If several threads call the function at once, only one thread gets true. With *@last =
   0, the next call returns true. */
bool log_again(_Atomic uint64_t *last, uint64_t now, uint64_t pause_ns);

#endif
