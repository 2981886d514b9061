/* suggest: the name that a mistyped word may stand for. */
#include "common/suggest.h"
#include "tests/lib/tap.h"

#include <string.h>

static const char *near(const char *word)
{
	static const char *const names[] = {"run", "status", "donors", "disk", "replicas", "local", "key"};
	static char text[SUGGEST_TEXT_MAX];
	struct suggestion suggestion = {.word = word};

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		suggest_consider(&suggestion, names[i]);
	return suggest_format(&suggestion, "--", text);
}

int main(void)
{
	char longest[SUGGEST_MAX + 2] = "";

	ok(!strcmp(near("rnu"), " (did you mean --run?)"), "two letters that are exchanged are found");
	ok(!strcmp(near("replica"), " (did you mean --replicas?)"), "a missing letter is found");
	ok(!strcmp(near("statsus"), " (did you mean --status?)"), "a letter too many is found");
	ok(!strcmp(near("dosk"), " (did you mean --disk?)"), "a wrong letter is found");
	ok(!*near("colour") && !*near("x") && !*near(""), "a word unlike all names has no suggestion");
	memset(longest, 'a', SUGGEST_MAX + 1);
	ok(!*near(longest), "a word that is too long has no suggestion");
	return tap_done();
}
