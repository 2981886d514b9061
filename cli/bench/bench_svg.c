/* bench_svg: see bench_svg.h. Lengths are in pixels; y grows downwards. */
#include "cli/bench/bench_svg.h"
#include "cli/bench/bench_scale.h"
#include <math.h>

#define PANEL_WIDTH 340.0
#define PANEL_HEIGHT 200.0
#define MARGIN_LEFT 70.0
#define TITLE_HEIGHT 30.0
#define LEGEND_COLUMNS 2
#define LEGEND_STEP 18.0
#define STEP_X 450.0
#define STEP_Y 270.0
#define WIDTH 900.0
#define TICKS 4
#define BAR 18.0
#define BAR_STEP 40.0
#define LABEL_MAX 44 /* the most characters of an address in the legend and above a bar */

static const char *const colours[BENCH_DONORS_MAX] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
						      "#e69f00", "#56b4e9", "#7f7f7f", "#000000"};

struct panel {
	double left, top;
	struct bench_scale depths, values;
};

/* Prints at most @max characters of @text as element or attribute text. Prints "?" for each character that is not
   printable ASCII, because XML forbids control characters. */
static void svg_escape(const char *text, unsigned max, FILE *out)
{
	for (unsigned i = 0; i < max && text[i]; i++) {
		switch (text[i]) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		default:
			fputc(text[i] < ' ' || text[i] > '~' ? '?' : text[i], out);
		}
	}
}

static void svg_line(double x1, double y1, double x2, double y2, const char *colour, FILE *out)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour);
}

static double panel_x(const struct panel *panel, unsigned depth)
{
	return panel->left + PANEL_WIDTH * bench_scale_place(&panel->depths, depth);
}

static double panel_y(const struct panel *panel, double value)
{
	return panel->top + PANEL_HEIGHT * (1 - bench_scale_place(&panel->values, value));
}

static void panel_print_axes(const struct panel *panel, const struct bench_results *results, const char *title,
			     FILE *out)
{
	/* A logarithmic axis has a line for each power of two, or for every other one if there are many. */
	double powers = panel->values.logarithmic ? log2(panel->values.high / panel->values.low) : 0;
	int step = powers > 8 ? 2 : 1, ticks = panel->values.logarithmic ? (int)(powers + 0.5) : TICKS;

	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n", panel->left, panel->top - 10,
		title);
	for (int i = 0; i <= ticks; i += step) {
		double value = bench_scale_value(&panel->values, (double)i / ticks), y = panel_y(panel, value);

		svg_line(panel->left, y, panel->left + PANEL_WIDTH, y, "#dddddd", out);
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", panel->left - 6, y + 4,
			value);
	}
	svg_line(panel->left, panel->top, panel->left, panel->top + PANEL_HEIGHT, "#333333", out);
	svg_line(panel->left, panel->top + PANEL_HEIGHT, panel->left + PANEL_WIDTH, panel->top + PANEL_HEIGHT,
		 "#333333", out);
	for (unsigned i = 0; i < results->depth_count; i++)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%u</text>\n",
			panel_x(panel, results->depths[i]), panel->top + PANEL_HEIGHT + 16, results->depths[i]);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">pages in flight</text>\n",
		panel->left + PANEL_WIDTH / 2, panel->top + PANEL_HEIGHT + 32);
}

/* Prints one donor's line: solid with full markers, or for p99 dashed with hollow markers. */
static void panel_print_series(const struct panel *panel, const struct bench_results *results, unsigned donor,
			       enum bench_op op, enum bench_metric metric, FILE *out)
{
	const struct bench_point *points = results->donors[donor].points[op];

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colours[donor],
		metric == BENCH_P99 ? " stroke-dasharray=\"5 4\"" : "");
	for (unsigned i = 0; i < results->depth_count; i++)
		if (bench_metric_of(&points[i], metric) > 0)
			fprintf(out, "%.1f,%.1f ", panel_x(panel, results->depths[i]),
				panel_y(panel, bench_metric_of(&points[i], metric)));
	fputs("\"/>\n", out);
	for (unsigned i = 0; i < results->depth_count; i++)
		if (bench_metric_of(&points[i], metric) > 0)
			fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\" stroke=\"%s\"/>\n",
				panel_x(panel, results->depths[i]), panel_y(panel, bench_metric_of(&points[i], metric)),
				metric == BENCH_P99 ? "#ffffff" : colours[donor], colours[donor]);
}

static void svg_print_op(const struct bench_results *results, enum bench_op op, double top, FILE *out)
{
	unsigned deepest = results->depths[results->depth_count - 1];
	/* If there is only one depth, it is at the left end. */
	struct bench_scale depths = {.low = results->depths[0],
				     .high = deepest > results->depths[0] ? deepest : 2.0 * deepest,
				     .logarithmic = true};
	struct panel rates = {MARGIN_LEFT, top, depths, bench_scale_rates(results, op)};
	struct panel latencies = {MARGIN_LEFT + STEP_X, rates.top, depths, bench_scale_latencies(results, op)};
	char title[64];

	snprintf(title, sizeof title, "%ss: thousand pages a second", bench_op_name(op));
	panel_print_axes(&rates, results, title, out);
	snprintf(title, sizeof title, "%ss: latency, \xc2\xb5s (p50 solid, p99 dashed)", bench_op_name(op));
	panel_print_axes(&latencies, results, title, out);
	for (unsigned donor = 0; donor < results->donor_count; donor++) {
		panel_print_series(&rates, results, donor, op, BENCH_RATE, out);
		panel_print_series(&latencies, results, donor, op, BENCH_P50, out);
		panel_print_series(&latencies, results, donor, op, BENCH_P99, out);
	}
}

/* Prints the legend under the title. Returns the y at which it ends. */
static double svg_print_legend(const struct bench_results *results, FILE *out)
{
	double y = TITLE_HEIGHT;

	for (unsigned i = 0; i < results->donor_count; i++) {
		double x = MARGIN_LEFT + i % LEGEND_COLUMNS * STEP_X;

		y += i % LEGEND_COLUMNS ? 0 : LEGEND_STEP;
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n<text x=\"%.1f\" y=\"%.1f\">", x,
			y - 4, colours[i], x + 10, y);
		svg_escape(bench_donor_label(results, i), LABEL_MAX, out);
		fputs("</text>\n", out);
	}
	return y;
}

static void svg_print_part(double x, double y, double width, const char *colour, const char *name, double us, FILE *out)
{
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width, BAR,
		colour);
	if (width > 90)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#ffffff\">%s %.1f</text>\n", x + 4, y + 13, name, us);
}

/* Prints for each donor a bar: the p50 of a far fault, divided into its parts. All bars have the same scale. */
static void svg_print_faults(const struct bench_results *results, double top, FILE *out)
{
	struct bench_shares shares;
	double longest = 0, y = top + 12;

	for (unsigned i = 0; i < results->donor_count; i++)
		if (bench_donor_shares(results, i, &shares)) {
			double parts = shares.resolve + shares.read;

			longest = fmax(longest, fmax(shares.fault, parts));
		}
	if (longest <= 0)
		return;
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">a far fault, \xc2\xb5s (p50)</text>\n",
		MARGIN_LEFT, top);
	for (unsigned i = 0; i < results->donor_count; i++) {
		double scale = (WIDTH - 2 * MARGIN_LEFT) / longest, x = MARGIN_LEFT;

		if (!bench_donor_shares(results, i, &shares))
			continue;
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", x, y + 10);
		svg_escape(bench_donor_label(results, i), LABEL_MAX, out);
		fprintf(out, ": %.1f</text>\n", shares.fault);
		y += 16;
		svg_print_part(x, y, shares.resolve * scale, "#555555", "userfaultfd", shares.resolve, out);
		x += shares.resolve * scale;
		svg_print_part(x, y, shares.read * scale, colours[i], "page read", shares.read, out);
		x += shares.read * scale;
		if (shares.rest > 0)
			svg_print_part(x, y, shares.rest * scale, "#999999", "the rest", shares.rest, out);
		y += BAR_STEP;
	}
}

void bench_svg_print(const struct bench_results *results, FILE *out)
{
	unsigned rows = (results->donor_count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
	double height =
	    TITLE_HEIGHT + rows * LEGEND_STEP + BENCH_OPS * STEP_Y + results->donor_count * (16 + BAR_STEP) + 60;
	double top;

	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
		"<text x=\"%.1f\" y=\"24\" font-size=\"16\">farpage bench: random pages of 4 KiB%s</text>\n",
		WIDTH, height, WIDTH, height, MARGIN_LEFT, results->interrupted ? " (interrupted)" : "");
	top = svg_print_legend(results, out) + 40;
	for (unsigned op = 0; op < BENCH_OPS && results->depth_count; op++)
		svg_print_op(results, (enum bench_op)op, top + op * STEP_Y, out);
	svg_print_faults(results, top + BENCH_OPS * STEP_Y, out);
	fputs("</svg>\n", out);
}
