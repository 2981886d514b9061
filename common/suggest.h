/*
 * suggest: finds the name that a mistyped word may stand for.
 *
 * The distance of two words is the number of letters to insert, delete, replace or exchange with the next letter
 * (optimal string alignment distance). A name is offered if its distance is at most a third of its length.
 *
 * Threads: any.
 */
#ifndef COMMON_SUGGEST_H
#define COMMON_SUGGEST_H

struct suggestion {
	const char *word; /* as typed, and ended by a zero byte; words longer than SUGGEST_MAX match nothing */
	const char *name; /* the nearest name so far, or NULL */
	unsigned distance;
};

#define SUGGEST_MAX 63u
#define SUGGEST_TEXT_MAX (SUGGEST_MAX + 32u)

/* Considers one more name, which must live as long as the suggestion. */
void suggest_consider(struct suggestion *suggestion, const char *name);
/* Writes " (did you mean PREFIXname?)", or "" if no name is near. Returns @text. */
const char *suggest_format(const struct suggestion *suggestion, const char *prefix, char text[SUGGEST_TEXT_MAX]);

#endif
