/*
 * A program that has registered its own printf conversions, as libquadmath does, and has set a locale. The C library
 * keeps the tables for both in the program's heap, so the tables go far. No thread of farpage may need them.
 */
#include "tests/func/preload/victim.h"

#include <locale.h>
#include <printf.h>
#include <pthread.h>

#define THREADS 8
#define ROUNDS 3

static char *memory;
static size_t size;

static int mega_print(FILE *stream, const struct printf_info *info, const void *const *arguments)
{
	(void)info;
	return fprintf(stream, "%uM", *(const unsigned *)arguments[0] >> 20);
}

static int mega_arguments(const struct printf_info *info, size_t count, int *types, int *sizes)
{
	(void)info;
	if (count) {
		types[0] = PA_INT;
		sizes[0] = sizeof(int);
	}
	return 1;
}

static void wide_take(void *memory_of_one, va_list *list)
{
	*(long double *)memory_of_one = va_arg(*list, long double);
}

static const char *mega_text(unsigned bytes)
{
	static char text[32];

	static const char *volatile format = "%Y"; /* volatile: hides the format from the compiler */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof text, format, bytes);
#pragma GCC diagnostic pop
	return text;
}

/* Each thread fills its own share several times, so that the rest of the process goes far. */
static void *use(void *argument)
{
	size_t share = size / THREADS / PAGE * PAGE, bad = 0;
	char *mine = memory + (uintptr_t)argument * share;

	for (unsigned round = 0; round < ROUNDS; round++) {
		fill(mine, share, round);
		bad += wrong(mine, share, round, 0);
	}
	return (void *)bad;
}

int main(void)
{
	pthread_t threads[THREADS];
	size_t bad = 0;

	alarm(100); /* ends a test that hangs */
	size = victim_size();
	ok(register_printf_specifier('Y', mega_print, mega_arguments) == 0 && register_printf_modifier(L"Q") >= 0 &&
	       register_printf_type(wide_take) >= 0,
	   "the program registers its own printf conversions");
	ok(setlocale(LC_ALL, "C.UTF-8") != NULL, "the program sets a locale");
	ok(!strcmp(mega_text(5 << 20), "5M"), "the program's printf conversion works before memory is far");
	memory = malloc(size);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, (void *)i);
	for (unsigned i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		bad += (size_t)result;
	}
	ok(bad == 0, "every page has the contents last written (%zu do not)", bad);
	ok(!strcmp(mega_text(7 << 20), "7M"), "the program's printf conversion works after its tables went far");
	free(memory);
	return tap_done();
}
