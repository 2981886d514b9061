/*
 * table: prints lists for people, with libsmartcols. All lists have the options --noheadings and --output, and fit the
 * terminal.
 *
 * Threads: one for each table.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>

#define TABLE_COLUMNS_MAX 16
#define TABLE_CELL_MAX 320 /* a URI of a donor fits */

struct table_column {
	const char *name;
	bool right;    /* numbers and sizes */
	bool optional; /* shown only if a row has a text for it, or if --output names it */
	bool cut;      /* is shortened if the terminal is too narrow */
	bool extra;    /* shown only if --output names it */
};

/* The options of a table. */
struct table_style {
	const char *output; /* names of columns, comma-separated, or NULL for all columns except the extra ones */
	bool noheadings;
};

/* The options --noheadings and --output, for the table of settings of a command. */
/* clang-format off */
#define TABLE_SETTINGS(style) \
	{.name = "noheadings", .kind = CONFIG_FLAG, .value = &(style)->noheadings, .help = "leave out the headings"}, \
	{.name = "output", .kind = CONFIG_STRING, .value = &(style)->output, .argument = "COLUMNS", \
	 .help = "the columns to print, comma-separated, as the headings name them"}
/* clang-format on */

struct table;

/* Makes an empty table with @count columns, which must live as long as the table. Returns NULL after one logged line if
   @style names a column that does not exist, or if memory is short. That line names @command, for example "disk
   list". */
struct table *table_open(const char *command, const struct table_column *columns, unsigned count,
			 const struct table_style *style);
/* Appends a row: a text for each column, in the order of the columns. */
void table_add(struct table *table, char (*cells)[TABLE_CELL_MAX]);
/* Frees a table that is not printed. */
void table_close(struct table *table);
/* Prints the table on standard output, and frees it. A table without rows prints its headings. */
void table_print(struct table *table);
/* Returns the table as text that is @width characters wide at most, and frees it. The caller frees the text. Returns
   NULL if memory is short. */
char *table_text(struct table *table, unsigned width);

#endif
