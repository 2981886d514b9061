/* poller: chooses the implementation, see poller.h. */
#include "fabric/poller.h"

#include "common/format.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>

/* Reads the environment once, when the first poller is opened. Later, the program may have moved its environment into
   far memory, which this thread may not touch. */
static bool ring_is_wanted(void)
{
	enum { UNKNOWN, RING, EPOLL };
	static _Atomic int wanted = UNKNOWN;

	if (wanted == UNKNOWN) {
		const char *wish = getenv("FARPAGE_POLLER");

		wanted = wish && !strcmp(wish, poller_epoll_operations.name) ? EPOLL : RING;
	}
	return wanted == RING;
}

int poller_open(struct poller **ret_poller)
{
	int status;

	if (ring_is_wanted()) {
		status = poller_ring_operations.open(ret_poller);
		if (status == 0)
			return 0;
		log_debug("no io_uring (%s): using epoll", format_errno(status));
	}
	return poller_epoll_operations.open(ret_poller);
}

void poller_close(struct poller *poller)
{
	if (poller)
		poller->operations->close(poller);
}

int poller_fd(const struct poller *poller)
{
	return poller->operations->fd(poller);
}

int poller_add(struct poller *poller, struct poller_source *source)
{
	return poller->operations->add(poller, source);
}

void poller_remove(struct poller *poller, struct poller_source *source)
{
	poller->operations->remove(poller, source);
}

void poller_arm(struct poller *poller, struct poller_source *source, unsigned events)
{
	if ((source->armed & events) != events)
		poller->operations->arm(poller, source, events);
}

bool poller_has_found(const struct poller *poller)
{
	return poller->operations->has_found(poller);
}

int poller_wait(struct poller *poller, int64_t timeout_ns)
{
	return poller->operations->wait(poller, timeout_ns);
}
