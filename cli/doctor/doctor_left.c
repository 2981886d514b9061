/* doctor_left: see doctor_left.h. The facts are in /run/farpage (blockdev/daemon/runtime.h), which only root can read. */
#include "cli/doctor/doctor_left.h"
#include "blockdev/daemon/control.h"
#include "blockdev/daemon/runtime.h"
#include "blockdev/frontends.h"
#include "blockdev/host/use.h"
#include "cli/doctor/doctor.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 64
#define ANSWER_MS 1000

static struct doctor_verdict judge_left(const struct device_facts *facts, const char *why)
{
	struct doctor_verdict verdict;

	if (!facts->path) {
		verdict = doctor_judged(DOCTOR_WARN, why, "its daemon ended before there was a device");
		doctor_mend(&verdict, "farpage disk detach %s", facts->name);
	} else if (facts->adoptable) {
		verdict = doctor_judged(DOCTOR_WARN, why, "its daemon has ended; %s waits for another%s%s", facts->path,
					facts->use ? ", and in use: " : "", facts->use ? facts->use : "");
		doctor_mend(&verdict,
			    "farpage disk adopt %s, to go on with it; or end what uses it, then farpage disk "
			    "detach %s",
			    facts->name, facts->name);
	} else {
		verdict = doctor_judged(DOCTOR_WARN, why, "its daemon has ended, and what was in %s with it%s%s",
					facts->path, facts->use ? "; in use: " : "", facts->use ? facts->use : "");
		doctor_mend(&verdict, "%sfarpage disk detach %s", facts->use ? "end what uses it, then " : "",
			    facts->name);
	}
	return verdict;
}

struct doctor_verdict doctor_judge_device(const struct device_facts *facts)
{
	static const char why[] =
	    "who uses a device that is not served waits for ever, or gets errors; and a daemon that "
	    "could not make itself safe may be no place to swap to";
	struct doctor_verdict verdict;

	if (!facts->served)
		return judge_left(facts, why);
	if (!facts->answers)
		return doctor_judged(DOCTOR_WARN, why,
				     "its daemon lives, and does not answer; it may be starting, or "
				     "be waiting for a donor");
	if (!facts->missing)
		return doctor_judged(DOCTOR_PASS, why, "%s is served%s%s", facts->path ? facts->path : "it",
				     facts->use ? ": " : "", facts->use ? facts->use : "");
	verdict = doctor_judged(DOCTOR_WARN, why, "%s is served, without what makes it safe to swap to: %s",
				facts->path ? facts->path : "it", facts->missing);
	doctor_mend(&verdict, "see \"rights of the daemon\"");
	return verdict;
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Writes the names of the safety steps that were not taken, according to "safety" in the daemon's status (status.h). */
static void missing_read(struct json_object *status, char *text, size_t size)
{
	struct json_object *safety;
	size_t used = 0;

	text[0] = '\0';
	if (!json_object_object_get_ex(status, "safety", &safety))
		return;
	json_object_object_foreach(safety, name, taken)
	{
		if (!json_object_get_boolean(taken) && used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
	}
}

static void device_examine(struct doctor *doctor, const char *name)
{
	static char reply[CONTROL_REPLY_MAX];
	char use[USE_TEXT_MAX], missing[128] = "";
	struct device_facts facts = {.name = name, .served = runtime_is_served(name)};
	const struct frontend_ops *ops;
	struct runtime_device device;
	struct json_object *status;

	if (!runtime_read_device(name, &device)) {
		facts.path = device.device.path;
		facts.use = use_find(facts.path, use) ? use : NULL;
		ops = frontends_find(device.frontend);
		facts.adoptable = ops && ops->adopts;
	}
	if (facts.served && control_ask(name, CONTROL_STATUS, ANSWER_MS, reply) >= 0) {
		status = json_tokener_parse(reply);
		facts.answers = status != NULL;
		if (status)
			missing_read(status, missing, sizeof missing);
		facts.missing = *missing ? missing : NULL;
		json_object_put(status);
	}
	struct doctor_verdict verdict = doctor_judge_device(&facts);
	doctor_add(doctor, name, &verdict);
}

void doctor_left(struct doctor *doctor)
{
	char names[DEVICES_MAX][RUNTIME_NAME_MAX + 1];
	int count = geteuid() ? 0 : runtime_list(names, DEVICES_MAX);

	for (int i = 0; i < count; i++)
		device_examine(doctor, names[i]);
}
