/*
 * log: writes one line per event on standard error, as "farpage: donor tcp://10.0.0.7:7470 is gone: connection reset".
 * It formats on the stack, calls write(2) once, allocates nothing, and keeps errno. Any thread.
 *
 * If the descriptor is systemd's journal (JOURNAL_STREAM), each line begins with its "<N>" priority.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets the program's name (a literal) and the level. Must run before other threads start. The defaults are "farpage"
   and LOG_LEVEL_WARNING. */
void log_setup(const char *name, enum log_level level);
/* Sets the descriptor to which lines are written. The default is 2. Must run before other threads start. */
void log_set_fd(int fd);
/* Changes the level. May be called at any time. */
void log_set_level(enum log_level level);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rate-limits a log line that could otherwise come with every page. If @pause_ns have passed since *@last, sets *@last
   to @now and returns true. If several threads call it at once, only one gets true. *@last is 0 initially. Setting it
   to 0 lets the next line through at once. @now is clock_now(). */
bool log_again(_Atomic uint64_t *last, uint64_t now, uint64_t pause_ns);

#endif
