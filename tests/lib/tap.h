/*
 * tap: the Test Anything Protocol (testanything.org, version 12), in one header. A test program calls ok() for each
 * check. At its end it calls tap_done(), which prints the plan and returns the exit status.
 */
#ifndef TESTS_LIB_TAP_H
#define TESTS_LIB_TAP_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that all files of a program share the same variables. */
__attribute__((weak)) int tap_count, tap_failed;

#define ok(condition, ...) tap_ok((condition), #condition, __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 5, 6), unused)) static bool tap_ok(bool good, const char *text, const char *file,
								 int line, const char *format, ...)
{
	char name[256];

	__builtin_va_list arguments;
	__builtin_va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	__builtin_va_end(arguments);
	printf("%sok %d - %s\n", good ? "" : "not ", ++tap_count, name);
	if (!good) {
		tap_failed++;
		printf("# %s:%d: %s\n", file, line, text);
	}
	fflush(stdout);
	return good;
}

/* Skips a whole program that cannot run here. Called before any ok(): `return tap_skip_all("no userfaultfd");` */
__attribute__((unused)) static int tap_skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return 0;
}

__attribute__((unused)) static void tap_skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count, name, why);
	fflush(stdout);
}

/* Prints the reason why the test cannot continue, and ends the program. */
__attribute__((format(printf, 1, 2), noreturn, unused)) static void tap_bail(const char *format, ...)
{
	__builtin_va_list arguments;

	__builtin_va_start(arguments, format);
	printf("Bail out! ");
	vprintf(format, arguments);
	printf("\n");
	fflush(stdout);
	exit(EXIT_FAILURE);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
#endif
