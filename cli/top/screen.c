/* screen: see screen.h. */
#include "cli/top/screen.h"

#include "common/clock.h"

#include <curses.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int screen_open(struct screen *screen)
{
	/* newterm(), because initscr() ends the process if TERM is unknown. */
	screen->terminal = newterm(NULL, stdout, stdin);
	if (!screen->terminal)
		return -ENOTTY;
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, true);
	return 0;
}

void screen_close(struct screen *screen)
{
	endwin();
	delscreen(screen->terminal);
}

unsigned screen_width(void)
{
	return (unsigned)COLS;
}

void screen_clear(struct screen *screen)
{
	screen->count = 0;
}

void screen_add(struct screen *screen, bool is_title, const char *text)
{
	do {
		size_t length = strcspn(text, "\n");

		if (screen->count == SCREEN_LINES_MAX)
			return;
		screen->is_title[screen->count] = is_title;
		snprintf(screen->lines[screen->count++], SCREEN_LINE_MAX, "%.*s", (int)length, text);
		text += length + (text[length] == '\n');
	} while (*text);
}

void screen_draw(struct screen *screen)
{
	unsigned rows = (unsigned)LINES;
	unsigned last = screen->count > rows ? screen->count - rows : 0;

	if (screen->top > last)
		screen->top = last;
	erase();
	for (unsigned i = 0; i < rows && screen->top + i < screen->count; i++) {
		bool is_title = screen->is_title[screen->top + i];

		attrset(is_title ? A_BOLD : A_NORMAL);
		mvaddnstr((int)i, 0, screen->lines[screen->top + i], COLS);
	}
	attrset(A_NORMAL);
	refresh();
}

/* Returns false if @key quits. */
static bool act_on(struct screen *screen, int key)
{
	unsigned page = (unsigned)LINES > 1 ? (unsigned)LINES - 1 : 1;

	switch (key) {
	case 'q':
		return false;
	case KEY_DOWN:
		screen->top++;
		break;
	case KEY_NPAGE:
		screen->top += page;
		break;
	case KEY_UP:
		screen->top -= screen->top > 0;
		break;
	case KEY_PPAGE:
		screen->top -= screen->top < page ? screen->top : page;
		break;
	default:
		break;
	}
	screen_draw(screen);
	return true;
}

bool screen_wait(struct screen *screen, unsigned ms)
{
	uint64_t now = clock_now(), until = now + ms * UINT64_C(1000000);

	for (; now < until; now = clock_now()) {
		timeout((int)((until - now) / 1000000) + 1);

		int key = getch();

		/* If the terminal is closed, getch() returns an error at once, again and again. */
		if (key == ERR && clock_now() < until)
			return false;
		if (key != ERR && !act_on(screen, key))
			return false;
	}
	return true;
}
