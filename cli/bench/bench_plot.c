/*
 * bench_plot: see bench_plot.h. Each panel is a grid of cells. A cell has the mark of a donor, or CELL_SEVERAL for
 * several donors, which is printed as a star.
 */
#include "cli/bench/bench_plot.h"

#include "cli/bench/bench_scale.h"

#include <string.h>

#define ROWS 9
#define COLUMN 4 /* cells for each depth */
#define LABEL 6
#define CELL_EMPTY 0
#define CELL_SEVERAL 255

struct panel {
	struct bench_scale scale;
	uint8_t cells[ROWS][BENCH_DEPTHS_MAX]; /* a mark_of(), CELL_EMPTY or CELL_SEVERAL */
};

static uint8_t mark_of(unsigned donor, bool tail)
{
	return (uint8_t)(1 + 2 * donor + tail);
}

static const char *mark_text(uint8_t mark, bool unicode)
{
	static const char *const drawn[] = {"●", "○", "■", "□", "▲", "△", "◆", "◇"};
	static const char letters[][2] = {"A", "a", "B", "b", "C", "c", "D", "d",
					  "E", "e", "F", "f", "G", "g", "H", "h"};

	if (mark == CELL_EMPTY)
		return " ";
	if (mark == CELL_SEVERAL)
		return "*";
	if (unicode && mark <= sizeof drawn / sizeof drawn[0])
		return drawn[mark - 1];
	return letters[(mark - 1) % (sizeof letters / sizeof letters[0])];
}

static void panel_mark(struct panel *panel, unsigned column, double value, uint8_t mark)
{
	uint8_t *cell;
	int row;

	if (value <= 0)
		return; /* not measured */
	row = (int)(bench_scale_place(&panel->scale, value) * (ROWS - 1) + 0.5);
	row = row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row;
	cell = &panel->cells[row][column];
	*cell = *cell == CELL_EMPTY ? mark : CELL_SEVERAL;
}

static void panel_fill(struct panel *panel, const struct bench_results *results, enum bench_op op, bool latency)
{
	memset(panel, 0, sizeof *panel);
	panel->scale = latency ? bench_scale_latencies(results, op) : bench_scale_rates(results, op);
	for (unsigned donor = 0; donor < results->donor_count; donor++) {
		for (unsigned i = 0; i < results->depth_count; i++) {
			const struct bench_point *point = &results->donors[donor].points[op][i];

			panel_mark(panel, i, bench_metric_of(point, latency ? BENCH_P50 : BENCH_RATE),
				   mark_of(donor, false));
			if (latency)
				panel_mark(panel, i, bench_metric_of(point, BENCH_P99), mark_of(donor, true));
		}
	}
}

/* Prints one row of a panel. If the panel is the @last one of its line, no blanks are printed after its last mark. */
static void panel_print_row(const struct panel *panel, int row, unsigned columns, bool unicode, bool last, FILE *out)
{
	unsigned used = columns;

	if (row % 2 == 0)
		fprintf(out, "%*.6g ", LABEL, bench_scale_value(&panel->scale, (double)row / (ROWS - 1)));
	else
		fprintf(out, "%*s ", LABEL, "");
	fputs(unicode ? "│" : "|", out);
	while (last && used && panel->cells[row][used - 1] == CELL_EMPTY)
		used--;
	for (unsigned i = 0; i < used; i++)
		fprintf(out, "%*s%s", COLUMN - 1, "", mark_text(panel->cells[row][i], unicode));
}

static void panel_print_axis(unsigned columns, bool unicode, FILE *out)
{
	fprintf(out, "%*s %s", LABEL, "", unicode ? "└" : "+");
	for (unsigned i = 0; i < columns * COLUMN; i++)
		fputs(unicode ? "─" : "-", out);
}

static void panel_print_depths(const struct bench_results *results, FILE *out)
{
	fprintf(out, "%*s ", LABEL, "depth");
	fputc(' ', out);
	for (unsigned i = 0; i < results->depth_count; i++)
		fprintf(out, "%*u", COLUMN, results->depths[i]);
}

/* Prints throughput and latency of one operation side by side. */
static void plot_print_op(const struct bench_results *results, enum bench_op op, bool unicode, FILE *out)
{
	struct panel rates, latencies;
	char title[64];
	int width = LABEL + 2 + (int)results->depth_count * COLUMN;

	panel_fill(&rates, results, op, false);
	panel_fill(&latencies, results, op, true);
	snprintf(title, sizeof title, "%ss: thousand pages/s", bench_op_name(op));
	fprintf(out, "\n%-*s  %ss: us (log)\n", width, title, bench_op_name(op));
	for (int row = ROWS - 1; row >= 0; row--) {
		panel_print_row(&rates, row, results->depth_count, unicode, false, out);
		fputs("  ", out);
		panel_print_row(&latencies, row, results->depth_count, unicode, true, out);
		fputc('\n', out);
	}
	panel_print_axis(results->depth_count, unicode, out);
	fputs("  ", out);
	panel_print_axis(results->depth_count, unicode, out);
	fputc('\n', out);
	panel_print_depths(results, out);
	fputs("  ", out);
	panel_print_depths(results, out);
	fputc('\n', out);
}

static bool plot_has(const struct bench_results *results, enum bench_op op)
{
	for (unsigned donor = 0; donor < results->donor_count; donor++)
		for (unsigned i = 0; i < results->depth_count; i++)
			if (results->donors[donor].points[op][i].measured)
				return true;
	return false;
}

void bench_plot_print(const struct bench_results *results, bool unicode, FILE *out)
{
	bool drawn = false;

	for (unsigned op = 0; op < BENCH_OPS; op++) {
		if (!plot_has(results, (enum bench_op)op))
			continue;
		plot_print_op(results, (enum bench_op)op, unicode, out);
		drawn = true;
	}
	if (!drawn)
		return;
	fputc('\n', out);
	for (unsigned donor = 0; donor < results->donor_count; donor++)
		fprintf(out, "  %s %s (p99: %s)", mark_text(mark_of(donor, false), unicode),
			bench_donor_label(results, donor), mark_text(mark_of(donor, true), unicode));
	fprintf(out, "  * several\n\n");
}
