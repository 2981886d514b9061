/*
 * screen: lines on the whole terminal, which scroll if there are more than fit (ncurses).
 *
 * Threads: the main thread.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>

#define SCREEN_LINES_MAX 1024
#define SCREEN_LINE_MAX 512

struct screen {
	char lines[SCREEN_LINES_MAX][SCREEN_LINE_MAX];
	bool is_title[SCREEN_LINES_MAX];
	unsigned count, top; /* number of lines; the first one shown */
	void *terminal;
};

/* Takes over the terminal. Returns 0, or -ENOTTY if it cannot show a screen, as TERM says. */
int screen_open(struct screen *screen);
/* Gives the terminal back as it was. */
void screen_close(struct screen *screen);
/* Returns the width in characters. */
unsigned screen_width(void);

void screen_clear(struct screen *screen);
/* Appends the lines of @text. Titles stand out. Lines beyond SCREEN_LINES_MAX are left out. */
void screen_add(struct screen *screen, bool is_title, const char *text);
void screen_draw(struct screen *screen);
/* Waits for @ms, and scrolls meanwhile as the user says. Returns false if the user quits. */
bool screen_wait(struct screen *screen, unsigned ms);

#endif
