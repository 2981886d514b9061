/*
 * bench_interrupt: Ctrl-C (SIGINT) and SIGTERM end a benchmark in order: what was leased is given back, what was
 * measured is shown. The second one ends it at once.
 *
 * The process that shows catches the signal; those that measure (bench_apart.h) see that it has.
 *
 * Threads: the main one; farpage's own threads block all signals.
 */
#ifndef CLI_BENCH_INTERRUPT_H
#define CLI_BENCH_INTERRUPT_H
#include <stdbool.h>

/* Once. -ENOMEM after one line. */
int bench_interrupt_catch(void);
/* In a child: the signal is the parent's business. */
void bench_interrupt_leave(void);
/* Cheap: to be asked in every round of a measuring loop. */
bool bench_interrupted(void);
/* 128 + the signal, as a shell says it. */
int bench_interrupt_status(void);

/* One line on standard error, if that is a terminal, which the next one replaces. @format makes no newline. */
void bench_progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bench_progress_erase(void);

#endif
