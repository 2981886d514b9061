/* watchdog: see watchdog.h. */
#include "memserver/watchdog.h"

#include "common/clock.h"

#include <systemd/sd-daemon.h>

void watchdog_open(struct watchdog *watchdog)
{
	uint64_t us;

	*watchdog = (struct watchdog){0};
	if (sd_watchdog_enabled(0, &us) > 0)
		watchdog->every_ns = us < UINT64_MAX / 1000 ? us * 1000 / 2 : UINT64_MAX / 4;
}

void watchdog_tell(struct watchdog *watchdog)
{
	if (watchdog_left(watchdog))
		return;
	sd_notify(0, "WATCHDOG=1");
	watchdog->due = clock_now() + watchdog->every_ns;
}

uint64_t watchdog_left(const struct watchdog *watchdog)
{
	uint64_t now;

	if (!watchdog->every_ns)
		return UINT64_MAX;
	now = clock_now();
	return watchdog->due > now ? watchdog->due - now : 0;
}
