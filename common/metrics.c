/* metrics: see metrics.h. */
#include "common/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The first and last bucket of a histogram, as powers of two in ns. */
#define POWER_MIN 13u
#define POWER_MAX 33u

static void text_add_character(struct text *text, char character)
{
	if (character == '\n')
		text_add(text, "\\n");
	else if (character == '"' || character == '\\')
		text_add(text, "\\%c", character);
	else
		text_add(text, "%c", character >= ' ' && character <= '~' ? character : '?');
}

/* If the line that began at @begin does not fit, removes it. As `cut` stays set, later lines are left out, too. */
static void line_end(struct text *text, size_t begin)
{
	if (!text->cut)
		return;
	text->length = begin;
	text->at[begin] = '\0';
}

void metrics_family(struct metrics_text *text, const char *name, enum metrics_kind kind, const char *help)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram"};
	const size_t begin = text->out.length;

	assert(!strpbrk(help, "\n\\"));
	text->family = name;
	if (text->out.cut)
		return;
	text_add(&text->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
	line_end(&text->out, begin);
}

static void sample_add(struct metrics_text *text, const char *suffix, const struct metrics_label *labels, double value)
{
	const size_t begin = text->out.length;

	if (text->out.cut)
		return;
	text_add(&text->out, "%s%s", text->family, suffix);
	for (unsigned i = 0; labels && labels[i].name; i++) {
		text_add(&text->out, "%s%s=\"", i ? "," : "{", labels[i].name);
		for (const char *at = labels[i].value; *at; at++)
			text_add_character(&text->out, *at);
		text_add(&text->out, "\"");
	}
	text_add(&text->out, labels && labels[0].name ? "} %.15g\n" : " %.15g\n", value);
	line_end(&text->out, begin);
}

void metrics_sample(struct metrics_text *text, const struct metrics_label *labels, double value)
{
	sample_add(text, "", labels, value);
}

void metrics_histogram(struct metrics_text *text, const struct metrics_label *labels, const struct histogram *histogram)
{
	struct metrics_label all[METRICS_LABELS_MAX + 2] = {0};
	uint64_t below[POWER_MAX - POWER_MIN + 1], count;
	char bound[32];
	unsigned own = 0;

	for (; labels && labels[own].name; own++) {
		assert(own < METRICS_LABELS_MAX);
		all[own] = labels[own];
	}
	all[own] = (struct metrics_label){"le", bound};
	count = histogram_below_powers(histogram, POWER_MIN, POWER_MAX, below);
	for (unsigned power = POWER_MIN; power <= POWER_MAX; power++) {
		snprintf(bound, sizeof bound, "%.12g", (double)(UINT64_C(1) << power) / 1e9);
		sample_add(text, "_bucket", all, (double)below[power - POWER_MIN]);
	}
	snprintf(bound, sizeof bound, "+Inf");
	sample_add(text, "_bucket", all, (double)count);
	sample_add(text, "_sum", labels, (double)histogram_sum(histogram) / 1e9);
	sample_add(text, "_count", labels, (double)count);
}

void metrics_figures(struct metrics_text *text, const struct metrics_label *labels,
		     const struct metrics_figure *figures, unsigned count, const void *base)
{
	for (unsigned i = 0; i < count; i++) {
		const uint64_t *value = (const uint64_t *)((const char *)base + figures[i].offset);

		metrics_family(text, figures[i].name, figures[i].kind, figures[i].help);
		metrics_sample(text, labels, (double)__atomic_load_n(value, __ATOMIC_RELAXED));
	}
}

void metrics_program(struct metrics_text *text, const struct metrics_label *labels, const char *const names[2],
		     uint64_t started_s)
{
	const struct metrics_label version[] = {{"version", FARPAGE_VERSION}, {NULL, NULL}};

	metrics_family(text, names[0], METRICS_GAUGE, "The version of the program, as a label. The value is 1.");
	metrics_sample(text, version, 1);
	metrics_family(text, names[1], METRICS_GAUGE, "When the program started, in Unix time.");
	metrics_sample(text, labels, (double)started_s);
}
