/* bench_interrupt: see bench_interrupt.h. */
#include "cli/bench/bench_interrupt.h"

#include "cli/bench/bench_apart.h"
#include "common/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define PROGRESS_MAX 72 /* fits a terminal of 80 columns */
#define ERASE "\r\033[K"

/* The signal's number, or 0. It is shared with the processes that measure. */
static volatile sig_atomic_t *caught;

static void interrupt_note(int number)
{
	*caught = number;
}

int bench_interrupt_catch(void)
{
	struct sigaction action = {.sa_handler = interrupt_note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};

	caught = bench_apart_alloc(sizeof *caught);
	if (!caught) {
		log_error("no memory left");
		return -ENOMEM;
	}
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return 0;
}

bool bench_interrupted(void)
{
	return *caught != 0;
}

int bench_interrupt_status(void)
{
	return 128 + *caught;
}

void bench_interrupt_leave(void)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
}

void bench_progress_show(const char *format, ...)
{
	char text[PROGRESS_MAX];
	va_list arguments;

	if (!isatty(STDERR_FILENO))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	/* Leaves the cursor at the left edge, so that a log line of another thread begins there. */
	fprintf(stderr, ERASE "%s\r", text);
}

void bench_progress_erase(void)
{
	if (isatty(STDERR_FILENO))
		fputs(ERASE, stderr);
}
