/* doctor_reserves: see doctor_reserves.h. */
#include "cli/doctor/doctor_reserves.h"
#include "blockdev/daemon/runtime.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_devices.h"
#include "cli/doctor/doctor_swap.h"
#include "cli/doctor/facts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 64

/* Writes the values as text: "vm.min_free_kbytes 2727, vm.watermark_scale_factor 10". Returns @text. */
static const char *values_text(const struct watermarks *values, char text[WATERMARKS_TEXT_MAX])
{
	size_t length = 0;

	for (unsigned which = 0; which < WATERMARKS; which++)
		length +=
		    (size_t)snprintf(text + length, WATERMARKS_TEXT_MAX - length, "%s%s %llu", which ? ", " : "",
				     watermark_name((enum watermark)which), (unsigned long long)values->at[which]);
	return text;
}

static bool reaches(const struct watermarks *values, const struct watermarks *wanted)
{
	bool all = true;

	for (unsigned which = 0; which < WATERMARKS; which++)
		all &= values->at[which] >= wanted->at[which];
	return all;
}

struct doctor_verdict doctor_judge_reserves(const struct reserve_facts *facts)
{
	static const char why[] = "the way to a donor takes memory when there is none left: what the kernel keeps free "
				  "is for that, and kswapd "
				  "has to begin early enough that programs do not use it up meanwhile";
	char now[WATERMARKS_TEXT_MAX], needed[WATERMARKS_TEXT_MAX], changes[WATERMARKS_TEXT_MAX];
	struct doctor_verdict verdict;

	if (facts->error)
		return doctor_judged(DOCTOR_WARN, why, "what the kernel keeps free cannot be read: %s",
				     strerror(-facts->error));
	values_text(&facts->now, now);
	values_text(&facts->needed, needed);
	if (facts->device && !reaches(&facts->now, &facts->record.set)) {
		verdict = doctor_judged(DOCTOR_WARN, why, "%s: lowered since farpage swap on has raised them for %s",
					now, facts->device);
		doctor_mend(&verdict, "as root: sysctl vm.min_free_kbytes=%llu vm.watermark_scale_factor=%llu",
			    (unsigned long long)facts->record.set.at[WATERMARK_MIN],
			    (unsigned long long)facts->record.set.at[WATERMARK_SCALE]);
		return verdict;
	}
	if (facts->device && watermarks_changes(&facts->record, changes))
		return doctor_judged(DOCTOR_PASS, why, "raised for as long as %s is there: %s", facts->device, changes);
	if (reaches(&facts->now, &facts->needed))
		return doctor_judged(DOCTOR_PASS, why, "%s: enough", now);
	return doctor_judged(DOCTOR_PASS, why, "%s; farpage swap on raises that while its device is there, to %s", now,
			     needed);
}

/* Finds the first device that has a record. */
static void record_find(struct reserve_facts *facts, char name[RUNTIME_NAME_MAX + 1])
{
	char names[DEVICES_MAX][RUNTIME_NAME_MAX + 1];
	int count = geteuid() ? 0 : runtime_list(names, DEVICES_MAX);

	for (int i = 0; i < count && !facts->device; i++)
		if (watermarks_record_read(names[i], &facts->record) == 0) {
			memcpy(name, names[i], sizeof names[i]);
			facts->device = name;
		}
}

void doctor_reserves(struct doctor *doctor)
{
	struct reserve_facts facts = {.device = NULL};
	char name[RUNTIME_NAME_MAX + 1];
	uint64_t memory_kib = 0;
	bool recovers;

	if (doctor_skip_donor(doctor))
		return;
	facts.error = watermarks_read(&facts.now);
	facts_field("/proc/meminfo", "MemTotal", &memory_kib);
	facts.needed = watermarks_needed(memory_kib, doctor_frontend_flight_kib(doctor_frontend(&recovers)));
	record_find(&facts, name);
	struct doctor_verdict verdict = doctor_judge_reserves(&facts);
	doctor_add(doctor, NULL, &verdict);
}
