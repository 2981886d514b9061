/*
 * log: one line per event on standard error, "farpage: donor tcp://10.0.0.7:7470 is gone: connection reset".
 * Formats on the stack and calls write(2) once; allocates nothing; any thread; keeps errno. Into
 * systemd's journal (JOURNAL_STREAM names the descriptor) each line is prefixed with its "<N>" priority.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Before any thread is started. @name: the program's, a literal. Default: "farpage", LOG_LEVEL_WARNING, fd 2. */
void log_setup(const char *name, enum log_level level);
void log_set_fd(int fd);
/* At any time. */
void log_set_level(enum log_level level);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For a line that could come with every page: whether the last one is @pause_ns ago, which it then is not any more; of
   several threads one is told so. @last: 0 at first, and whenever the next is to come at once; @now: clock_now(). */
bool log_again(_Atomic uint64_t *last, uint64_t now, uint64_t pause_ns);

#endif
