/* status: see status.h. */
#include "blockdev/daemon/status.h"

#include "blockdev/daemon/health.h"
#include "blockdev/host/safety.h"
#include "client/far.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct json {
	char *at;
	size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void json_add(struct json *json, const char *format, ...)
{
	size_t room = json->size - json->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(json->at + json->length, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		json->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* Adds a name or address. Leaves out characters that JSON would need to escape, and control characters. */
static void json_add_text(struct json *json, const char *name, const char *text)
{
	char plain[FAR_URI_MAX];
	size_t length = 0;

	for (; *text && length < sizeof plain - 1; text++)
		if (*text >= ' ' && *text < 0x7f && *text != '"' && *text != '\\')
			plain[length++] = *text;
	plain[length] = 0;
	json_add(json, "\"%s\":\"%s\",", name, plain);
}

static void json_add_number(struct json *json, const char *name, uint64_t number)
{
	json_add(json, "\"%s\":%llu,", name, (unsigned long long)number);
}

/* Replaces the last comma. */
static void json_end(struct json *json, const char *end)
{
	if (json->length && json->at[json->length - 1] == ',')
		json->at[--json->length] = 0;
	json_add(json, "%s", end);
}

static void add_store(struct json *json, const struct store *store)
{
	struct store_stats stats;

	store_stats(store, &stats);
	json_add_number(json, "pages_live", stats.pages_live);
	json_add_number(json, "bytes_used", stats.pages_live * STORE_PAGE);
	json_add_number(json, "bytes_leased", stats.bytes_leased);
	json_add_number(json, "bytes_available", stats.bytes_available);
	json_add_number(json, "pages_lost", stats.lost_pages);
	json_add_number(json, "pages_missing", stats.missing_pages);
	json_add_number(json, "slabs_lacking", stats.slabs_lacking);
	json_add_number(json, "pages_rebuilt", stats.rebuilt_pages);
	json_add_number(json, "pages_repaired", stats.repaired_pages);
	json_add_number(json, "pages_scrubbed", stats.scrubbed_pages);
	json_add_number(json, "reads_hedged", stats.hedges);
	json_add_number(json, "hedges_won", stats.hedges_won);
	json_add_number(json, "pages_backed_up", stats.backup_pages);
	json_add_number(json, "pages_behind", stats.backup_behind);
	json_add_number(json, "pages_kept", stats.kept_pages);
	json_add_number(json, "pages_returned", stats.returned_pages);
	json_add_number(json, "backup_reads", stats.backup_reads);
	json_add_number(json, "backup_writes", stats.backup_writes);
	json_add_number(json, "checksum_errors", stats.checksum_errors);
	json_add_number(json, "bookkeeping_bytes", stats.memory);
	json_add(json, "\"encrypted\":%s,", stats.encrypted ? "true" : "false");
}

static void add_counts(struct json *json, const char *name, const uint64_t counts[DISK_OPS])
{
	json_add(json, "\"%s\":{", name);
	for (unsigned i = 0; i < DISK_OPS; i++)
		json_add_number(json, disk_op_name((enum disk_op)i), counts[i]);
	json_end(json, "},");
}

static void add_disk(struct json *json, const struct disk *disk)
{
	struct disk_stats stats;

	disk_get_stats(disk, &stats);
	add_counts(json, "requests", stats.requests);
	add_counts(json, "errors", stats.errors);
	add_counts(json, "bytes", stats.bytes);
	json_add_number(json, "waited", stats.waited);
}

static void add_safety(struct json *json)
{
	unsigned steps = safety_steps();

	json_add(json, "\"safety\":{");
	for (unsigned i = 0; i < SAFETY_STEPS; i++)
		if (safety_wants((enum safety_step)i))
			json_add(json, "\"%s\":%s,", safety_step_name((enum safety_step)i),
				 steps >> i & 1 ? "true" : "false");
	json_end(json, "},");
}

static void add_health(struct json *json, const struct status *status)
{
	const struct settings *settings = status->settings;
	struct health_sight sight = {0};
	char why[HEALTH_WHY_MAX];

	if (!settings->memory)
		sight = health_look(status->store, settings->backup);
	json_add_text(json, "state", health_name(health_judge(&sight, why)));
	if (*why)
		json_add_text(json, "why", why);
}

static void add_donors(struct json *json, const struct store *store)
{
	/* This is too large for the stack. Only the main thread uses it. */
	static struct far_donor_info donors[FAR_DONORS_MAX];
	unsigned count = far_donors(store, donors, FAR_DONORS_MAX);

	for (unsigned i = 0; i < count && i < FAR_DONORS_MAX; i++) {
		json_add(json, "{");
		json_add_text(json, "donor", donors[i].uri);
		if (*donors[i].via && strcmp(donors[i].via, donors[i].uri) != 0)
			json_add_text(json, "via", donors[i].via);
		json_add(json, "\"reachable\":%s,", donors[i].status == 0 && !donors[i].away ? "true" : "false");
		if (donors[i].status < 0)
			json_add_text(json, "reason", strerror(-donors[i].status));
		else if (donors[i].away)
			json_add_text(json, "reason", "it does not answer, and is waited for");
		if (*donors[i].failure_domain)
			json_add_text(json, "domain", donors[i].failure_domain);
		json_add_number(json, "leased_bytes", donors[i].leased_here);
		json_end(json, "},");
	}
}

void status_write(const struct status *status, char *ret_text, size_t size)
{
	const struct settings *settings = status->settings;
	struct json json = {.at = ret_text, .size = size};

	json_add(&json, "{");
	json_add_text(&json, "name", settings->name);
	json_add_number(&json, "size", settings->size);
	json_add_text(&json, "device", status->device.path);
	json_add_text(&json, "frontend", status->frontend->name);
	json_add(&json, "\"number\":%d,\"pid\":%d,\"keeper\":%d,", status->device.number, getpid(), getppid());
	json_add(&json, "\"adoptable\":%s,", status->frontend->adopts && !settings->memory ? "true" : "false");
	add_health(&json, status);
	json_add_number(&json, "uptime_s", status->uptime_s);
	json_add_number(&json, "restarts", status->restarts);
	add_store(&json, status->store);
	add_disk(&json, status->disk);
	add_safety(&json);
	json_add(&json, "\"donors\":[");
	if (!settings->memory)
		add_donors(&json, status->store);
	json_end(&json, "]}");
}
