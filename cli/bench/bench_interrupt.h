/*
 * bench_interrupt: lets Ctrl-C (SIGINT) or SIGTERM end a benchmark properly. The benchmark returns its leases and
 * shows the results so far. A second signal of the same kind ends it at once.
 *
 * The parent, which shows the results, catches the signal and sets a shared flag. Its steps (bench_apart.h) ignore
 * the signal and read this flag.
 *
 * Threads: the main thread. farpage's other threads block all signals.
 */
#ifndef CLI_BENCH_INTERRUPT_H
#define CLI_BENCH_INTERRUPT_H
#include <stdbool.h>

/* Catches both signals from now on. Called once. Returns 0, or -ENOMEM after one logged line. */
int bench_interrupt_catch(void);
/* Makes a child ignore both signals, because its parent handles them. */
void bench_interrupt_leave(void);
/* Returns true if a signal was caught. The call is cheap enough for every round of a measuring loop. */
bool bench_interrupted(void);
/* Returns 128 + the signal's number, the exit status that a shell reports. */
int bench_interrupt_status(void);

/* Shows one line on standard error if that is a terminal. The next line replaces it. @format contains no newline. */
void bench_progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bench_progress_erase(void);

#endif
