/* size: reads sizes as people write them, refuses other texts, and writes sizes that can be read back. */
#include "common/random.h"
#include "common/size.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <inttypes.h>

static void sizes_are_read_as_people_write_them(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
	    {"0", 0},
	    {"4096", 4096},
	    {"1K", 1024},
	    {"64M", 64u << 20},
	    {"64m", 64u << 20},
	    {"64MiB", 64u << 20},
	    {"64mib", 64u << 20},
	    {"2G", 2ull << 30},
	    {"1.5G", 3ull << 29},
	    {"0.5K", 512},
	    {"1T", 1ull << 40},
	    {"3P", 3ull << 50},
	    {"15E", 15ull << 60},
	    {"17.3M", 18140364},
	    {"007K", 7 << 10},
	    {"18446744073709551615", UINT64_MAX},
	    {"15.999999999999999999E", UINT64_MAX - 1},
	};
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
		uint64_t bytes = 1;
		int error = size_parse(good[i].text, &bytes);

		ok(!error && bytes == good[i].bytes, "'%s' reads as %" PRIu64 " bytes (status %d, %" PRIu64 " bytes)",
		   good[i].text, good[i].bytes, error, bytes);
	}
}

static void other_texts_are_refused_as_sizes(void)
{
	static const char *const not_sizes[] = {"",     " ",     "M",    "-1",     "+1",  " 1",
						"1 ",   "12Q",   "1.5",  "1.",     "1.M", ".5M",
						"1,5G", "64MB",  "64Mi", "64MiBx", "1MM", "0x10",
						"1e3",  "1..5G", "--1G", "1\n",    "inf", "1.0000000000000000000G"};
	static const char *const too_large[] = {"18446744073709551616", "16E", "99999999999999999999999999", "16384P",
						"18014398509481984K"};

	for (unsigned i = 0; i < sizeof not_sizes / sizeof *not_sizes; i++) {
		uint64_t bytes = 77;

		ok(size_parse(not_sizes[i], &bytes) == -EINVAL && bytes == 77, "malformed size %u is refused", i);
	}
	for (unsigned i = 0; i < sizeof too_large / sizeof *too_large; i++) {
		uint64_t bytes = 77;

		ok(size_parse(too_large[i], &bytes) == -ERANGE && bytes == 77,
		   "the size '%s' is refused as too large for 64 bits", too_large[i]);
	}
}

static void sizes_are_written_in_the_largest_unit(void)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
	    {0, "0"},
	    {4096, "4096"},
	    {9999, "9999"},
	    {10000, "9.8K"},
	    {12288, "12K"},
	    {64u << 20, "64M"},
	    {3ull << 29, "1.5G"},
	    {18140364, "17.3M"},
	    {1000u << 20, "1000M"},
	    {1023u << 20, "1023M"},
	    {(1u << 30) - 1, "1G"},
	    {1ull << 40, "1T"},
	    {1ull << 60, "1E"},
	    {UINT64_MAX, "16E"},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[SIZE_TEXT_MAX];

		ok(!strcmp(size_format(cases[i].bytes, text), cases[i].text),
		   "%" PRIu64 " bytes are written as %s (got %s)", cases[i].bytes, cases[i].text, text);
	}
}

static void written_sizes_can_be_read_back(void)
{
	struct random_state random;
	unsigned bad = 0;

	random_seed(&random, 1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t bytes = random_next(&random) >> (2 + random_below(&random, 62)), back;
		char text[SIZE_TEXT_MAX];

		if (size_parse(size_format(bytes, text), &back)) {
			bad++;
			continue;
		}
		uint64_t apart = bytes > back ? bytes - back : back - bytes;
		bad += apart > bytes / 20; /* rounding to a tenth of a unit; the size is at least one unit */
	}
	ok(bad == 0, "a written size reads back within a tenth of its unit");
}

int main(void)
{
	sizes_are_read_as_people_write_them();
	other_texts_are_refused_as_sizes();
	sizes_are_written_in_the_largest_unit();
	written_sizes_can_be_read_back();
	return tap_done();
}
