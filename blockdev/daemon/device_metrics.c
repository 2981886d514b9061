#include "blockdev/daemon/device_metrics.h"

#include "blockdev/daemon/health.h"
#include "client/far.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics_http.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUBLISH_NS UINT64_C(1000000000)

struct device_metrics {
	struct metrics_http *http;
	uint64_t started_s;
	uint64_t published_at; /* clock_now() of the last text, or 0 */
	pthread_mutex_t lock;  /* guards the fields below, and the published text */
	unsigned shown;
	size_t length; /* length of the published text, or 0 if there is none */
	bool cut;      /* the published text is not complete */
	char texts[2][METRICS_HTTP_TEXT_MAX];
};

/* --- Writing ----------------------------------------------------------------------------------------------------- */

#define NAME(name) "farpage_blockdev_" name
/* The labels of a sample: "device" and one more. */
#define LABELS(status, key, value)                                                                                     \
	(const struct metrics_label[])                                                                                 \
	{                                                                                                              \
		{"device", (status)->settings->name}, {key, value},                                                    \
		{                                                                                                      \
			NULL, NULL                                                                                     \
		}                                                                                                      \
	}

static void ops_write(struct metrics_text *text, const struct status *status, const char *name, const char *help,
		      const uint64_t counts[DISK_OPS])
{
	metrics_family(text, name, METRICS_COUNTER, help);
	for (unsigned op = 0; op < DISK_OPS; op++)
		metrics_sample(text, LABELS(status, "op", disk_op_name((enum disk_op)op)), (double)counts[op]);
}

static void disk_write(struct metrics_text *text, const struct status *status)
{
	static struct histogram times; /* too large for the stack */
	struct disk_stats stats;

	disk_get_stats(status->disk, &stats);
	ops_write(text, status, NAME("requests_total"), "Requests of the kernel, answered.", stats.requests);
	ops_write(text, status, NAME("request_errors_total"), "Requests of the kernel that failed.", stats.errors);
	ops_write(text, status, NAME("request_bytes_total"), "Bytes of requests that succeeded.", stats.bytes);
	metrics_family(text, NAME("requests_waited_total"), METRICS_COUNTER, "Requests that found a page locked.");
	metrics_sample(text, LABELS(status, NULL, NULL), (double)stats.waited);
	metrics_family(text, NAME("request_duration_seconds"), METRICS_HISTOGRAM, "Time of requests that succeeded.");
	for (unsigned op = 0; op <= DISK_WRITE; op++) {
		memset(&times, 0, sizeof times);
		disk_add_times(status->disk, (enum disk_op)op, &times);
		metrics_histogram(text, LABELS(status, "op", disk_op_name((enum disk_op)op)), &times);
	}
}

static void store_write(struct metrics_text *text, const struct status *status)
{
	struct store_stats stats;

	store_stats(status->store, &stats);
	for (unsigned i = 0; i < status_figure_count; i++)
		metrics_figures(text, LABELS(status, NULL, NULL), &status_figures[i].metric, 1, &stats);
}

static void health_write(struct metrics_text *text, const struct status *status)
{
	const struct settings *settings = status->settings;
	struct health_sight sight = {0};
	char why[HEALTH_WHY_MAX];
	enum health health;

	if (!settings->memory)
		sight = health_look(status->store, settings->backup);
	health = health_judge(&sight, why);
	metrics_family(text, NAME("state"), METRICS_GAUGE, "1 for the state that the device is in, 0 for the others.");
	for (unsigned i = 0; i < HEALTHS; i++)
		metrics_sample(text, LABELS(status, "state", health_name((enum health)i)), i == health);
}

static void donors_write(struct metrics_text *text, const struct status *status)
{
	static struct far_donor_info donors[FAR_DONORS_MAX]; /* too large for the stack */
	unsigned count = status->settings->memory ? 0 : far_donors(status->store, donors, FAR_DONORS_MAX);

	metrics_family(text, NAME("donor_reachable"), METRICS_GAUGE,
		       "1 if the donor answers, 0 if it is away or lost.");
	for (unsigned i = 0; i < count; i++)
		metrics_sample(text, LABELS(status, "donor", donors[i].uri), donors[i].status == 0 && !donors[i].away);
	metrics_family(text, NAME("donor_lost"), METRICS_GAUGE, "1 if the donor has been given up.");
	for (unsigned i = 0; i < count; i++)
		metrics_sample(text, LABELS(status, "donor", donors[i].uri), donors[i].status < 0);
	metrics_family(text, NAME("donor_leased_bytes"), METRICS_GAUGE, "Memory that the device leases of the donor.");
	for (unsigned i = 0; i < count; i++)
		metrics_sample(text, LABELS(status, "donor", donors[i].uri), (double)donors[i].leased_here);
}

void device_metrics_write(struct metrics_text *text, const struct status *status, uint64_t started_s)
{
	static const char *const names[2] = {NAME("build_info"), NAME("start_time_seconds")};
	const struct metrics_label *device = LABELS(status, NULL, NULL);

	metrics_program(text, device, names, started_s);
	metrics_family(text, NAME("size_bytes"), METRICS_GAUGE, "The size of the device.");
	metrics_sample(text, device, (double)status->settings->size);
	metrics_family(text, NAME("replicas"), METRICS_GAUGE, "Donors that hold each page (--replicas).");
	metrics_sample(text, device, status->settings->replicas);
	metrics_family(text, NAME("worker_restarts_total"), METRICS_COUNTER, "Workers that died and were replaced.");
	metrics_sample(text, device, status->restarts);
	health_write(text, status);
	donors_write(text, status);
	disk_write(text, status);
	store_write(text, status);
}

/* --- Publishing -------------------------------------------------------------------------------------------------- */

void device_metrics_publish(struct device_metrics *metrics, const struct status *status)
{
	const uint64_t now = clock_now();
	char *next = metrics->texts[!metrics->shown];
	struct metrics_text text = {.out = {.at = next, .size = METRICS_HTTP_TEXT_MAX}};

	if (metrics->published_at && now - metrics->published_at < PUBLISH_NS)
		return;
	device_metrics_write(&text, status, metrics->started_s);
	if (pthread_mutex_trylock(&metrics->lock) != 0)
		return;
	metrics->published_at = now;
	metrics->shown = !metrics->shown;
	metrics->length = text.out.length;
	metrics->cut = text.out.cut;
	pthread_mutex_unlock(&metrics->lock);
}

/* Copies the published text. Runs in the HTTP thread. */
static bool shown_copy(void *user, struct metrics_text *text)
{
	struct device_metrics *metrics = user;
	bool any;

	pthread_mutex_lock(&metrics->lock);
	any = metrics->length > 0;
	memcpy(text->out.at, metrics->texts[metrics->shown], metrics->length);
	text->out.length = metrics->length;
	text->out.cut = metrics->cut;
	pthread_mutex_unlock(&metrics->lock);
	return any;
}

int device_metrics_open(const char *address, struct device_metrics **ret_metrics)
{
	struct device_metrics *metrics = calloc(1, sizeof *metrics);
	int status;

	if (!metrics) {
		log_error("cannot serve metrics: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	metrics->started_s = (uint64_t)time(NULL);
	pthread_mutex_init(&metrics->lock, NULL);
	status = metrics_http_open(address, shown_copy, metrics, &metrics->http);
	if (status < 0) {
		device_metrics_close(metrics);
		return status;
	}
	*ret_metrics = metrics;
	return 0;
}

void device_metrics_close(struct device_metrics *metrics)
{
	if (!metrics)
		return;
	metrics_http_close(metrics->http);
	pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}
