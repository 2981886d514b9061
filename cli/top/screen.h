/*
 * screen: shows lines of text on the whole terminal, and scrolls if there are too many (ncurses).
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
	unsigned count, top; /* number of lines; index of the first line shown */
	void *terminal;
};

/* Takes over the terminal. Returns 0, or -ENOTTY if a terminal of the type in TERM cannot show a screen. */
int screen_open(struct screen *screen);
/* Restores the terminal. */
void screen_close(struct screen *screen);
/* Returns the width in characters. */
unsigned screen_width(void);

void screen_clear(struct screen *screen);
/* Appends the lines of @text. Titles are highlighted. Lines beyond SCREEN_LINES_MAX are omitted. */
void screen_add(struct screen *screen, bool is_title, const char *text);
void screen_draw(struct screen *screen);
/* Waits for @ms. Meanwhile obeys the keys for scrolling. Returns false if the user quits. */
bool screen_wait(struct screen *screen, unsigned ms);

#endif
