/* text: searches in texts and small files, for tests. */
#ifndef TESTS_LIB_TEXT_H
#define TESTS_LIB_TEXT_H

#include "tests/lib/tap.h"

/* Returns how often @word is in @text. */
static inline unsigned text_times(const char *text, const char *word)
{
	unsigned count = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		count++;
	return count;
}

/* Makes @text the contents of the file. Bails out on failure. */
static inline void text_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	if (!file || fputs(text, file) < 0 || fclose(file))
		tap_bail("%s cannot be written", path);
}

/* Returns the number in the line that begins with @field, in a file like /proc/meminfo. Returns 0 if there is no such
   line. */
static inline unsigned long long text_number(const char *path, const char *field)
{
	unsigned long long number = 0;
	char line[512];
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, field, strlen(field)) && sscanf(line + strlen(field), " %llu", &number) == 1)
			break;
	if (file)
		fclose(file);
	return number;
}

#endif
