/* A program whose printf has conversions of its own, as libquadmath registers them, and which has set a locale: what
   the C library keeps of both lies in the program's heap, and goes far. No thread of farpage's may need it. */
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
	static const char *volatile format = "%Y"; /* not the compiler's business */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof text, format, bytes);
#pragma GCC diagnostic pop
	return text;
}

/* Several threads in turn take every page of their own, so that the rest of the process goes far. */
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
	alarm(100); /* it hung */
	size = victim_size();
	ok(register_printf_specifier('Y', mega_print, mega_arguments) == 0 && register_printf_modifier(L"Q") >= 0 &&
	       register_printf_type(wide_take) >= 0,
	   "the program has conversions of its own");
	ok(setlocale(LC_ALL, "C.UTF-8") != NULL, "it has set a locale");
	ok(!strcmp(mega_text(5 << 20), "5M"), "its conversion works before");
	memory = malloc(size);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, (void *)i);
	for (unsigned i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		bad += (size_t)result;
	}
	ok(bad == 0, "no page is wrong (%zu)", bad);
	ok(!strcmp(mega_text(7 << 20), "7M"), "its conversion works after");
	free(memory);
	return tap_done();
}
