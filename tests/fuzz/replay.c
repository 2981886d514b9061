/*
 * replay: the main() of a fuzz target without libFuzzer. Runs the target on every file that is named, and on every
 * prefix of the file. A target that finds a fault aborts.
 */
#include "tests/lib/tap.h"

#include <stdint.h>

#define INPUT_MAX (1u << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies the input to a block of its exact size, so that a sanitizer or valgrind sees a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact)
		abort();
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_MAX];

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");

		if (!ok(file, "%s can be opened", argv[i]))
			continue;
		size_t size = fread(data, 1, sizeof data, file);
		bool whole = feof(file) && !ferror(file);
		fclose(file);
		for (size_t part = 0; part <= size; part++)
			run(data, part);
		ok(whole, "%s: all of its %zu beginnings were tried", argv[i], size + 1);
	}
	ok(argc > 1, "there is a corpus");
	return tap_done();
}
