/* device_metrics: the HTTP status before the first metrics are published, and when the metrics do not fit the
   buffer. */
#include "blockdev/daemon/device_metrics.h"
#include "common/log.h"
#include "common/metrics_http.h"
#include "tests/lib/http.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

#define PAGES 512u

static const struct frontend_ops ops = {.name = "ublk", .adopts = true};

/* Opens the metrics. Returns their port. */
static unsigned metrics_begin(struct device_metrics **ret_metrics)
{
	unsigned port = http_free_port();
	char address[16];

	snprintf(address, sizeof address, "%u", port);
	if (!port || device_metrics_open(address, ret_metrics) < 0)
		tap_bail("no metrics at port %u", port);
	return port;
}

static void the_status_says_what_is_wrong(struct status *status)
{
	static char name[METRICS_HTTP_TEXT_MAX / 2];
	struct settings long_named = *status->settings;
	struct device_metrics *metrics;
	unsigned port = metrics_begin(&metrics);

	ok(http_status(port) == 503, "metrics that are not written yet have the HTTP status 503");
	device_metrics_publish(metrics, status);
	ok(http_status(port) == 200, "metrics that are written have the HTTP status 200");
	device_metrics_close(metrics);

	memset(name, 'x', sizeof name - 1);
	long_named.name = name;
	status->settings = &long_named;
	port = metrics_begin(&metrics);
	device_metrics_publish(metrics, status);
	ok(http_status(port) == 500, "metrics that do not fit have the HTTP status 500");
	device_metrics_close(metrics);
}

int main(void)
{
	struct settings settings = {.name = "m0", .size = PAGES * STORE_PAGE, .memory = true};
	struct status status = {.settings = &settings, .frontend = &ops};
	struct store *store;
	struct disk *disk;

	log_set_fd(-1);
	if (metrics_http_load() < 0)
		return tap_skip_all("no libmicrohttpd");
	if (store_open_memory(PAGES, &store) < 0 || disk_open(store, settings.size, &disk) < 0)
		return EXIT_FAILURE;
	status.store = store;
	status.disk = disk;
	status.device = (struct frontend_device){.path = "/dev/ublkb5", .number = 5};
	the_status_says_what_is_wrong(&status);
	disk_close(disk);
	store_close(store);
	return tap_done();
}
