/* doctor_print: stores the findings, and prints them as text for people or as JSON for programs. */
#include "cli/doctor/internal.h"
#include "cli/json.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 30u /* texts of findings begin at this column, or later after a longer label */
#define INDENT 8u     /* the indentation of the "why" and "mend" lines */

static const char *const colours[] = {
    [PASS] = "\033[32m", [WARN] = "\033[33m", [FAIL] = "\033[31m", [SKIP] = "\033[2m"};

void doctor_print_add(struct report *report, const struct check *check, const char *subject,
		      const struct verdict *verdict)
{
	struct finding *finding;

	if (report->count == report->room) {
		unsigned room = report->room ? 2 * report->room : 64;
		struct finding *larger = realloc(report->findings, room * sizeof *larger);

		if (!larger) {
			report->truncated = true;
			return;
		}
		report->findings = larger;
		report->room = room;
	}
	finding = &report->findings[report->count++];
	*finding = (struct finding){.check = check, .verdict = *verdict};
	snprintf(finding->subject, sizeof finding->subject, "%s", subject);
	snprintf(finding->label, sizeof finding->label, "%s%s%s", check->title, *subject ? " " : "", finding->subject);
}

/* --- Text -------------------------------------------------------------------------------------------------------- */

/* Returns true if @finding is printed as text. Skipped findings are printed only with --verbose. */
static bool is_shown(const struct report *report, const struct finding *finding)
{
	return report->verbose || finding->verdict.status != SKIP;
}

/* Prints @text word by word from column @column. Further lines begin at @indent. */
static void print_wrapped(FILE *file, const char *text, unsigned column, unsigned indent, unsigned width)
{
	bool first = true; /* first word of its line */

	while (*text) {
		unsigned length = (unsigned)strcspn(text, " ");

		if (!first && width && column + 1 + length > width) {
			fprintf(file, "\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		fprintf(file, "%s%.*s", first ? "" : " ", (int)length, text);
		column += length + !first;
		first = false;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', file);
}

static void print_part(FILE *file, const char *name, const char *text, unsigned width)
{
	if (!*text)
		return;
	fprintf(file, "%*s%-5s ", (int)INDENT, "", name);
	print_wrapped(file, text, INDENT + 6, INDENT + 6, width);
}

/* Prints @finding. @label: the width of labels. */
static void print_finding(const struct report *report, const struct finding *finding, FILE *file, unsigned label,
			  unsigned width, bool colour)
{
	const struct verdict *verdict = &finding->verdict;
	unsigned length = (unsigned)strlen(finding->label), column = 8 + (length > label ? length : label) + 2;

	fprintf(file, "  %s%s%s  %-*s  ", colour ? colours[verdict->status] : "", verdict_name(verdict->status),
		colour ? "\033[0m" : "", (int)label, finding->label);
	print_wrapped(file, verdict->found, column, column, width);
	if (!report->verbose && (verdict->status == PASS || verdict->status == SKIP))
		return;
	print_part(file, "why", finding->check->why, width);
	print_part(file, "mend", verdict->mend, width);
}

void doctor_print_text(const struct report *report, FILE *file, unsigned width, bool colour)
{
	unsigned label = 0, counts[SKIP + 1] = {0};
	const char *group = NULL;

	for (unsigned i = 0; i < report->count; i++) {
		const struct finding *finding = &report->findings[i];
		unsigned length = (unsigned)strlen(finding->label);

		counts[finding->verdict.status]++;
		if (is_shown(report, finding) && length <= LABEL_MAX && length > label)
			label = length;
	}
	for (unsigned i = 0; i < report->count; i++) {
		const struct finding *finding = &report->findings[i];

		if (!is_shown(report, finding))
			continue;
		if (finding->check->group != group)
			fprintf(file, "%s%s\n", group ? "\n" : "", finding->check->group);
		group = finding->check->group;
		print_finding(report, finding, file, label, width, colour);
	}
	fprintf(file, "\n%u passed, %u warning%s, %u failed, %u skipped\n", counts[PASS], counts[WARN],
		counts[WARN] == 1 ? "" : "s", counts[FAIL], counts[SKIP]);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void add_text(struct json_object *object, const char *name, const char *text)
{
	json_object_object_add(object, name, *text ? json_object_new_string(text) : NULL);
}

void doctor_print_json(const struct report *report, FILE *file)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < report->count; i++) {
		const struct finding *finding = &report->findings[i];
		struct json_object *object = json_object_new_object();

		add_text(object, "id", finding->check->id);
		add_text(object, "subject", finding->subject);
		add_text(object, "status", verdict_name(finding->verdict.status));
		add_text(object, "found", finding->verdict.found);
		add_text(object, "why", finding->check->why);
		add_text(object, "mend", finding->verdict.mend);
		json_object_array_add(list, object);
	}
	json_print(list, false, file);
}
