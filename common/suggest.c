/* suggest: see suggest.h. */
#include "common/suggest.h"

#include <stdio.h>
#include <string.h>

static unsigned least(unsigned one, unsigned other)
{
	return one < other ? one : other;
}

/* Both words have at most SUGGEST_MAX letters. */
static unsigned distance(const char *one, const char *other)
{
	unsigned rows[3][SUGGEST_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
	const size_t length = strlen(other);

	for (unsigned j = 0; j <= length; j++)
		last[j] = j;
	for (unsigned i = 1; one[i - 1]; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= length; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (one[i - 1] != other[j - 1]));
			if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		unsigned *oldest = before;

		before = last;
		last = row;
		row = oldest;
	}
	return last[length];
}

void suggest_consider(struct suggestion *suggestion, const char *name)
{
	const size_t length = strlen(name);
	unsigned far;

	if (strlen(suggestion->word) > SUGGEST_MAX || length > SUGGEST_MAX)
		return;
	far = distance(suggestion->word, name);
	if (far > (length + 2) / 3 || (suggestion->name && far >= suggestion->distance))
		return;
	suggestion->name = name;
	suggestion->distance = far;
}

const char *suggest_format(const struct suggestion *suggestion, const char *prefix, char text[SUGGEST_TEXT_MAX])
{
	*text = '\0';
	if (suggestion->name)
		snprintf(text, SUGGEST_TEXT_MAX, " (did you mean %s%s?)", prefix, suggestion->name);
	return text;
}
