/* table: see table.h. */
#include "cli/table.h"

#include "common/log.h"

#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct table {
	struct libscols_table *scols;
	const struct table_column *columns;
	unsigned count;
	unsigned shown[TABLE_COLUMNS_MAX], shown_count; /* indexes of columns, in the order of output */
	bool used[TABLE_COLUMNS_MAX];                   /* true if a row has a text for this column */
	bool chosen;                                    /* true if --output was given */
};

static void log_unknown(const struct table *table, const char *command, const char *name, size_t length)
{
	char names[TABLE_COLUMNS_MAX * 16] = "";

	for (unsigned c = 0; c < table->count; c++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof names - used, "%s%s", c ? "," : "", table->columns[c].name);
	}
	log_error("%s: no such column: \"%.*s\"; --output takes some of %s", command, (int)length, name, names);
}

/* Reads --output. Returns false after one logged line. */
static bool choose(struct table *table, const char *command, const char *output)
{
	for (const char *name = output; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
		size_t length = strcspn(name, ",");
		unsigned c = 0;

		while (c < table->count && (strlen(table->columns[c].name) != length ||
					    strncasecmp(table->columns[c].name, name, length) != 0))
			c++;
		if (c == table->count || table->shown_count == TABLE_COLUMNS_MAX) {
			log_unknown(table, command, name, length);
			return false;
		}
		table->shown[table->shown_count++] = c;
	}
	table->chosen = true;
	return true;
}

static bool add_column(struct table *table, const struct table_column *column)
{
	int flags = (column->right ? SCOLS_FL_RIGHT : 0) | (column->cut ? SCOLS_FL_TRUNC : 0);

	return scols_table_new_column(table->scols, column->name, 0, flags) != NULL;
}

void table_close(struct table *table)
{
	scols_unref_table(table->scols);
	free(table);
}

struct table *table_open(const char *command, const struct table_column *columns, unsigned count,
			 const struct table_style *style)
{
	struct table *table = calloc(1, sizeof *table);
	bool good = table && (table->scols = scols_new_table());

	if (!good) {
		log_error("%s: out of memory", command);
		free(table);
		return NULL;
	}
	table->columns = columns;
	table->count = count;
	if (style->output && !choose(table, command, style->output)) {
		table_close(table);
		return NULL;
	}
	for (unsigned c = 0; !style->output && c < count; c++)
		if (!columns[c].extra)
			table->shown[table->shown_count++] = c;
	for (unsigned i = 0; good && i < table->shown_count; i++)
		good = add_column(table, &columns[table->shown[i]]);
	if (!good || scols_table_set_column_separator(table->scols, "  ") ||
	    scols_table_enable_noheadings(table->scols, style->noheadings)) {
		log_error("%s: out of memory", command);
		table_close(table);
		return NULL;
	}
	return table;
}

void table_add(struct table *table, char (*cells)[TABLE_CELL_MAX])
{
	struct libscols_line *line = scols_table_new_line(table->scols, NULL);

	for (unsigned i = 0; line && i < table->shown_count; i++) {
		const char *text = cells[table->shown[i]];

		table->used[table->shown[i]] |= *text != 0;
		scols_line_set_data(line, i, text);
	}
}

/* Hides the optional columns that no row uses. Writes a dash into empty cells of the other columns. */
static void hide_unused(struct table *table)
{
	for (unsigned i = 0; i < table->shown_count; i++) {
		if (!table->columns[table->shown[i]].optional)
			continue;
		if (!table->used[table->shown[i]] && !table->chosen)
			scols_column_set_flags(scols_table_get_column(table->scols, i), SCOLS_FL_HIDDEN);
		for (size_t n = 0; n < scols_table_get_nlines(table->scols); n++) {
			struct libscols_line *line = scols_table_get_line(table->scols, n);
			const char *text = scols_cell_get_data(scols_line_get_cell(line, i));

			if (!text || !*text)
				scols_line_set_data(line, i, "-");
		}
	}
}

void table_print(struct table *table)
{
	hide_unused(table);
	if (scols_table_get_nlines(table->scols)) {
		scols_print_table(table->scols);
	} else {
		/* libsmartcols prints no headings for an empty table. */
		for (unsigned i = 0; !scols_table_is_noheadings(table->scols) && i < table->shown_count; i++)
			printf("%s%s", table->columns[table->shown[i]].name, i + 1 < table->shown_count ? "  " : "\n");
	}
	table_close(table);
}

char *table_text(struct table *table, unsigned width)
{
	char *text = NULL;

	hide_unused(table);
	scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_ALWAYS);
	scols_table_set_termwidth(table->scols, width);
	if (scols_print_table_to_string(table->scols, &text))
		text = NULL;
	table_close(table);
	return text;
}
