/*
 * log: writes one line per event to standard error, such as "farpage: donor tcp://10.0.0.7:7470 is gone: connection
 * reset". A line is formatted on the stack and written by one write(2). These functions allocate nothing and do not
 * change errno. Any thread.
 *
 * If standard error is systemd's journal (JOURNAL_STREAM), each line begins with its priority, "<N>".
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
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

/* Limits a line that might be logged for every page. Returns true if @pause_ns have passed since *@last. Then sets
   *@last to @now (clock_now()). If several threads call the function at once, only one thread gets true. With *@last =
   0, the next call returns true. */
bool log_again(_Atomic uint64_t *last, uint64_t now, uint64_t pause_ns);

#endif
