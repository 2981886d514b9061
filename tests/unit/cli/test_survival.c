/* survival: the sentences of `farpage swap on` equal the table in docs/faults.md, whose path is the first argument. */
#include "cli/survival.h"
#include "client/far.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <string.h>

static char text[1 << 17];

int main(int argc, char **argv)
{
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;

	if (!file || !fread(text, 1, sizeof text - 1, file))
		return EXIT_FAILURE;
	fclose(file);
	for (unsigned copies = 1; copies <= FAR_REPLICAS_MAX; copies++) {
		for (unsigned backup = 0; backup < 2; backup++) {
			struct survival survival = survival_of(copies, backup);
			char row[1024];

			snprintf(row, sizeof row, "\n| %u | %s | %s | %s |\n", copies, backup ? "yes" : "no",
				 survival.survives, survival.costs);
			ok(strstr(text, row),
			   "the row of faults.md for %u copies and %s backup equals the output of farpage", copies,
			   backup ? "a" : "no");
		}
	}
	return tap_done();
}
