#include "blockdev/daemon/status.h"

#include "blockdev/daemon/health.h"
#include "blockdev/host/safety.h"
#include "client/far.h"
#include "common/text.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Adds a name or address, without characters that JSON would have to escape. */
static void json_add_text(struct text *json, const char *name, const char *text)
{
	char plain[FAR_URI_MAX];
	size_t length = 0;

	for (; *text && length < sizeof plain - 1; text++)
		if (*text >= ' ' && *text < 0x7f && *text != '"' && *text != '\\')
			plain[length++] = *text;
	plain[length] = 0;
	text_add(json, "\"%s\":\"%s\",", name, plain);
}

static void json_add_number(struct text *json, const char *name, uint64_t number)
{
	text_add(json, "\"%s\":%llu,", name, (unsigned long long)number);
}

/* Replaces the last comma by @end. */
static void json_end(struct text *json, const char *end)
{
	if (json->length && json->at[json->length - 1] == ',')
		json->at[--json->length] = 0;
	text_add(json, "%s", end);
}

#define FIGURE(name, metric, kind, help, member)                                                                       \
	{                                                                                                              \
		name,                                                                                                  \
		{                                                                                                      \
			"farpage_blockdev_" metric, METRICS_##kind, help, offsetof(struct store_stats, member)         \
		}                                                                                                      \
	}
const struct status_figure status_figures[] = {
    FIGURE("pages_live", "live_pages", GAUGE, "Pages with contents on donors.", pages_live),
    FIGURE("bytes_leased", "leased_bytes", GAUGE, "Memory of donors that the device leases.", bytes_leased),
    FIGURE("bytes_available", "available_bytes", GAUGE, "Memory that donors can still lease to the device.",
	   bytes_available),
    FIGURE("pages_read", "pages_read_total", COUNTER, "Pages read from the store.", reads),
    FIGURE("pages_written", "pages_written_total", COUNTER, "Pages written to the store.", writes),
    FIGURE("pages_discarded", "pages_discarded_total", COUNTER, "Pages discarded.", discards),
    FIGURE("pages_lost", "lost_pages_total", COUNTER, "Pages lost with their donors.", lost_pages),
    FIGURE("pages_missing", "missing_pages", GAUGE, "Lost pages that have not been written or discarded since.",
	   missing_pages),
    FIGURE("slabs_lacking", "lacking_replicas", GAUGE, "Replicas of slabs that are lacking and being made again.",
	   slabs_lacking),
    FIGURE("pages_rebuilt", "rebuilt_pages_total", COUNTER, "Pages copied to new replicas.", rebuilt_pages),
    FIGURE("pages_repaired", "repaired_pages_total", COUNTER,
	   "Pages that a donor returned corrupt and that were mended.", repaired_pages),
    FIGURE("pages_scrubbed", "scrubbed_pages_total", COUNTER, "Pages at rest that were read and found intact.",
	   scrubbed_pages),
    FIGURE("reads_hedged", "hedged_reads_total", COUNTER, "Reads sent to a second replica because the first was slow.",
	   hedges),
    FIGURE("hedges_won", "hedges_won_total", COUNTER, "Hedged reads that the second replica answered first.",
	   hedges_won),
    FIGURE("pages_backed_up", "backup_pages", GAUGE, "Pages that are on the local backup.", backup_pages),
    FIGURE("pages_behind", "backup_behind_pages", GAUGE, "Pages that are not on the local backup yet.", backup_behind),
    FIGURE("pages_kept", "kept_pages", GAUGE, "Pages that only the local backup has.", kept_pages),
    FIGURE("pages_returned", "returned_pages_total", COUNTER, "Pages brought back from the backup to donors.",
	   returned_pages),
    FIGURE("backup_reads", "backup_read_pages_total", COUNTER, "Pages read from the backup.", backup_reads),
    FIGURE("backup_writes", "backup_written_pages_total", COUNTER,
	   "Pages written to the backup because no donor had room.", backup_writes),
    FIGURE("checksum_errors", "checksum_errors_total", COUNTER, "Pages that donors returned changed.", checksum_errors),
    FIGURE("bookkeeping_bytes", "bookkeeping_bytes", GAUGE, "The daemon's memory for bookkeeping and buffers.", memory),
};
const unsigned status_figure_count = sizeof status_figures / sizeof *status_figures;

static void add_store(struct text *json, const struct store *store)
{
	struct store_stats stats;

	store_stats(store, &stats);
	for (unsigned i = 0; i < status_figure_count; i++)
		json_add_number(json, status_figures[i].name,
				*(const uint64_t *)((const char *)&stats + status_figures[i].metric.offset));
	json_add_number(json, "bytes_used", stats.pages_live * STORE_PAGE);
	text_add(json, "\"encrypted\":%s,", stats.encrypted ? "true" : "false");
}

static void add_counts(struct text *json, const char *name, const uint64_t counts[DISK_OPS])
{
	text_add(json, "\"%s\":{", name);
	for (unsigned i = 0; i < DISK_OPS; i++)
		json_add_number(json, disk_op_name((enum disk_op)i), counts[i]);
	json_end(json, "},");
}

static void add_disk(struct text *json, const struct disk *disk)
{
	struct disk_stats stats;

	disk_get_stats(disk, &stats);
	add_counts(json, "requests", stats.requests);
	add_counts(json, "errors", stats.errors);
	add_counts(json, "bytes", stats.bytes);
	json_add_number(json, "waited", stats.waited);
}

static void add_safety(struct text *json)
{
	unsigned steps = safety_steps();

	text_add(json, "\"safety\":{");
	for (unsigned i = 0; i < SAFETY_STEPS; i++)
		if (safety_wants((enum safety_step)i))
			text_add(json, "\"%s\":%s,", safety_step_name((enum safety_step)i),
				 steps >> i & 1 ? "true" : "false");
	json_end(json, "},");
}

static void add_health(struct text *json, const struct status *status)
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

static void add_donors(struct text *json, const struct store *store)
{
	/* too large for the stack; only the main thread uses it */
	static struct far_donor_info donors[FAR_DONORS_MAX];
	unsigned count = far_donors(store, donors, FAR_DONORS_MAX);

	for (unsigned i = 0; i < count && i < FAR_DONORS_MAX; i++) {
		text_add(json, "{");
		json_add_text(json, "donor", donors[i].uri);
		if (*donors[i].via && strcmp(donors[i].via, donors[i].uri) != 0)
			json_add_text(json, "via", donors[i].via);
		text_add(json, "\"reachable\":%s,", donors[i].status == 0 && !donors[i].away ? "true" : "false");
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
	struct text json = {.at = ret_text, .size = size};

	text_add(&json, "{");
	json_add_text(&json, "name", settings->name);
	json_add_number(&json, "size", settings->size);
	json_add_text(&json, "device", status->device.path);
	json_add_text(&json, "frontend", status->frontend->name);
	text_add(&json, "\"number\":%d,\"pid\":%d,\"keeper\":%d,", status->device.number, getpid(), getppid());
	text_add(&json, "\"adoptable\":%s,", status->frontend->adopts && !settings->memory ? "true" : "false");
	add_health(&json, status);
	json_add_number(&json, "uptime_s", status->uptime_s);
	json_add_number(&json, "restarts", status->restarts);
	add_store(&json, status->store);
	add_disk(&json, status->disk);
	add_safety(&json);
	text_add(&json, "\"donors\":[");
	if (!settings->memory)
		add_donors(&json, status->store);
	json_end(&json, "]}");
}
