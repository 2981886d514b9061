/*
 * metrics: writes metrics in the text format of Prometheus, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * Theory of operation. A family is a name with its HELP and TYPE lines. Its samples follow, each with a value and labels.
 * Lines that do not fit into the buffer are left out as a whole, and `cut` is set. Names and help texts are constants of
 * ours. Values of labels may be any bytes: quotes, backslashes and line breaks are escaped, and bytes outside printable
 * ASCII become question marks.
 *
 * Threads: any. Nothing is allocated.
 */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H
#include "common/histogram.h"
#include "common/text.h"
#include <stddef.h>
#include <stdint.h>

enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics_text {
	struct text out;    /* `cut` is set if lines were left out */
	const char *family; /* of the samples that follow */
};
struct metrics_label {
	const char *name, *value;
};

/* Begins a family. The name of a counter ends in "_total". */
void metrics_family(struct metrics_text *text, const char *name, enum metrics_kind kind, const char *help);
/* Adds a sample of the family. @labels ends with a NULL name. NULL is allowed. */
void metrics_sample(struct metrics_text *text, const struct metrics_label *labels, double value);
/*
 * Adds the samples of a histogram of ns as seconds: a bucket for each power of two from 8 µs to 8.6 s, the sum and the
 * count. The family is METRICS_HISTOGRAM. @labels has at most METRICS_LABELS_MAX.
 */
#define METRICS_LABELS_MAX 3
void metrics_histogram(struct metrics_text *text, const struct metrics_label *labels,
		       const struct histogram *histogram);

/* A family of one sample, whose value is a uint64_t in some struct. */
struct metrics_figure {
	const char *name;
	enum metrics_kind kind;
	const char *help;
	size_t offset;
};
/* Adds a family with one sample for each of @count figures of the struct at @base. Another thread may change them. */
void metrics_figures(struct metrics_text *text, const struct metrics_label *labels,
		     const struct metrics_figure *figures, unsigned count, const void *base);
/* Adds PROGRAM_build_info and PROGRAM_start_time_seconds. @started_s is in Unix time. @names are the names of the two. */
void metrics_program(struct metrics_text *text, const struct metrics_label *labels, const char *const names[2],
		     uint64_t started_s);
#endif
