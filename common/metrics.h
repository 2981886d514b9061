/*
 * metrics: writes metrics in the text format of Prometheus, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * Theory of operation. The text consists of families. metrics_family() writes a family's name, help and type.
 * metrics_sample() then writes its samples, each with labels and a value. If a line does not fit into the buffer, this
 * line and all later lines are left out, and `cut` is set. Values of labels may have any bytes: quotes, backslashes and
 * line breaks are escaped, and bytes outside printable ASCII become '?'. Names and help texts are constants, which need
 * no escaping.
 *
 * Any thread may call these functions, except farpage's own threads inside somebody's program (the near threads of
 * format.h). Nothing is allocated.
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
	const char *family; /* the current family */
};
struct metrics_label {
	const char *name, *value;
};

/* Begins a family. The name of a counter must end in "_total". */
void metrics_family(struct metrics_text *text, const char *name, enum metrics_kind kind, const char *help);
/* Adds a sample to the current family. @labels ends with a NULL name, and may be NULL. */
void metrics_sample(struct metrics_text *text, const struct metrics_label *labels, double value);
/* Adds a histogram of durations to the current family, which must be a METRICS_HISTOGRAM: a bucket for each power of
   two from 8 µs to 8.6 s, the sum and the count. Values in ns are converted to seconds. At most METRICS_LABELS_MAX
   labels are allowed. */
#define METRICS_LABELS_MAX 3
void metrics_histogram(struct metrics_text *text, const struct metrics_label *labels,
		       const struct histogram *histogram);

/* A family with one sample, whose value is a uint64_t at @offset in some struct. */
struct metrics_figure {
	const char *name;
	enum metrics_kind kind;
	const char *help;
	size_t offset;
};
/* Adds a family with one sample for each of @count figures of the struct at @base. Another thread may change the
   struct at the same time. */
void metrics_figures(struct metrics_text *text, const struct metrics_label *labels,
		     const struct metrics_figure *figures, unsigned count, const void *base);
/* Adds two families, PROGRAM_build_info and PROGRAM_start_time_seconds, under the two @names. @started_s is in Unix
   time. */
void metrics_program(struct metrics_text *text, const struct metrics_label *labels, const char *const names[2],
		     uint64_t started_s);
#endif
