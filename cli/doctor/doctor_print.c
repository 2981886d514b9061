/* doctor_print: prints the findings, as text for people or as JSON for programs. Threads: one. */
#include "cli/doctor/doctor.h"

#include <json-c/json.h>
#include <string.h>

#define LABEL_MAX 30u /* a longer label shifts the rest of its line to the right */
#define INDENT 8u     /* of the "why" and "mend" lines */

static const char *const colours[] = {
    [DOCTOR_PASS] = "\033[32m", [DOCTOR_WARN] = "\033[33m", [DOCTOR_FAIL] = "\033[31m", [DOCTOR_SKIP] = "\033[2m"};

/* Returns true if @finding is printed as text. Skipped findings are printed only with --verbose. */
static bool shown(const struct doctor *doctor, const struct doctor_finding *finding)
{
	return doctor->verbose || finding->verdict.status != DOCTOR_SKIP;
}

static unsigned label_length(const struct doctor_finding *finding)
{
	return (unsigned)(strlen(finding->check->title) + (*finding->subject ? 1 + strlen(finding->subject) : 0));
}

static unsigned label_width(const struct doctor *doctor)
{
	unsigned width = 0;

	for (unsigned i = 0; i < doctor->count; i++) {
		unsigned length = label_length(&doctor->findings[i]);

		if (shown(doctor, &doctor->findings[i]) && length <= LABEL_MAX && length > width)
			width = length;
	}
	return width;
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

static void print_finding(const struct doctor *doctor, const struct doctor_finding *finding, FILE *file, unsigned label,
			  unsigned width, bool colour)
{
	const struct doctor_verdict *verdict = &finding->verdict;
	unsigned length = label_length(finding), column = 8 + (length > label ? length : label) + 2;
	bool good = verdict->status == DOCTOR_PASS || verdict->status == DOCTOR_SKIP;

	fprintf(file, "  %s%s%s  %s%s%s%*s  ", colour ? colours[verdict->status] : "",
		doctor_status_name(verdict->status), colour ? "\033[0m" : "", finding->check->title,
		*finding->subject ? " " : "", finding->subject, length < label ? (int)(label - length) : 0, "");
	print_wrapped(file, verdict->found, column, column, width);
	if (good && !doctor->verbose)
		return;
	print_part(file, "why", verdict->why, width);
	print_part(file, "mend", verdict->mend, width);
}

static void print_count(FILE *file, const char *before, unsigned count, const char *what, const char *plural)
{
	fprintf(file, "%s%u %s%s", before, count, what, count == 1 ? "" : plural);
}

void doctor_print_text(const struct doctor *doctor, FILE *file, unsigned width, bool colour)
{
	unsigned label = label_width(doctor), counts[DOCTOR_SKIP + 1] = {0};
	const char *group = NULL;

	for (unsigned i = 0; i < doctor->count; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];

		counts[finding->verdict.status]++;
		if (!shown(doctor, finding))
			continue;
		if (finding->check->group != group)
			fprintf(file, "%s%s\n", group ? "\n" : "", finding->check->group);
		group = finding->check->group;
		print_finding(doctor, finding, file, label, width, colour);
	}
	print_count(file, "\n", counts[DOCTOR_PASS], "passed", "");
	print_count(file, ", ", counts[DOCTOR_WARN], "warning", "s");
	print_count(file, ", ", counts[DOCTOR_FAIL], "failed", "");
	print_count(file, ", ", counts[DOCTOR_SKIP], "skipped\n", "");
}

static void add_text(struct json_object *object, const char *name, const char *text)
{
	json_object_object_add(object, name, *text ? json_object_new_string(text) : NULL);
}

void doctor_print_json(const struct doctor *doctor, FILE *file)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < doctor->count; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];
		struct json_object *object = json_object_new_object();

		add_text(object, "id", finding->check->id);
		add_text(object, "subject", finding->subject);
		add_text(object, "status", doctor_status_name(finding->verdict.status));
		add_text(object, "found", finding->verdict.found);
		add_text(object, "why", finding->verdict.why);
		add_text(object, "mend", finding->verdict.mend);
		json_object_array_add(list, object);
	}
	fprintf(file, "%s\n",
		json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(list);
}
