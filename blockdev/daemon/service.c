#include "blockdev/daemon/service.h"

#include "blockdev/daemon/control.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4
#define TICK_MS 1000
#define WHY_MAX 256

struct loop {
	const struct service *service;
	int connections[CONNECTIONS_MAX];
	unsigned count;
	bool alone; /* the keeper has ended */
	bool over;
	enum service_end end;
};

/* Returns 0 if the service ends, or -errno with the reason in @ret_reply. */
static int loop_end(struct loop *loop, enum service_end end, char *ret_reply, size_t size)
{
	const struct service *service = loop->service;
	char why[WHY_MAX];
	int status = end == SERVICE_LEFT ? service->leave(service->user, why, sizeof why)
					 : service->detach(service->user, why, sizeof why);

	if (status < 0) {
		snprintf(ret_reply, size, "error: %s", why);
		return status;
	}
	snprintf(ret_reply, size, "ok");
	loop->over = true;
	loop->end = end;
	return 0;
}

static void end_take(struct loop *loop, int connection, enum service_end end)
{
	char reply[WHY_MAX + 16] = "error: the daemon is ending already";
	int status = -EALREADY;

	if (end == SERVICE_LEFT && !control_is_awaited(connection)) {
		log_warning("continuing: the caller that told this daemon to leave the device has given up");
		return;
	}
	if (!loop->over)
		status = loop_end(loop, end, reply, sizeof reply);
	if (control_reply(connection, reply) < 0 && status == 0 && end == SERVICE_LEFT)
		loop->end = SERVICE_ABANDONED;
}

static void signal_take(struct loop *loop)
{
	struct signalfd_siginfo info;
	char reply[WHY_MAX + 16];

	if (read(loop->service->signals, &info, sizeof info) != sizeof info || loop->over)
		return;
	if (info.ssi_signo == SIGHUP) {
		log_warning("SIGHUP: there is nothing to read again, the device continues");
		return;
	}
	if (loop_end(loop, SERVICE_DETACHED, reply, sizeof reply) < 0)
		log_warning("continuing despite signal %u: %s", info.ssi_signo, reply + strlen("error: "));
}

/* Returns false if the caller must close the connection. */
static bool connection_take(struct loop *loop, int connection)
{
	/* too large for the stack; only the main thread uses it */
	static char reply[CONTROL_REPLY_MAX];
	enum control_verb verb;
	int status = control_receive(connection, &verb);

	if (status < 0)
		return status == -EAGAIN;
	if (verb != CONTROL_STATUS) {
		end_take(loop, connection, verb == CONTROL_LEAVE ? SERVICE_LEFT : SERVICE_DETACHED);
		return false;
	}
	loop->service->status(loop->service->user, reply, sizeof reply);
	control_reply(connection, reply);
	return false;
}

/* Handles the connections that poll(2) has reported, and removes closed ones from the array. */
static void connections_take(struct loop *loop, const struct pollfd *polled)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < loop->count; i++) {
		if (!polled[i].revents || connection_take(loop, loop->connections[i]))
			loop->connections[kept++] = loop->connections[i];
		else
			close(loop->connections[i]);
	}
	loop->count = kept;
}

static void keeper_check(struct loop *loop, short events)
{
	if (!events || loop->alone)
		return;
	loop->alone = true;
	log_warning(
	    "the keeper of this daemon has ended, so nothing restarts the daemon if it dies: run `farpage disk adopt`");
}

enum service_end service_run(const struct service *service)
{
	struct loop loop = {.service = service, .alone = service->keeper < 0};

	while (!loop.over) {
		struct pollfd polled[3 + CONNECTIONS_MAX] = {
		    {.fd = service->signals, .events = POLLIN},
		    {.fd = loop.count < CONNECTIONS_MAX ? service->control : -1, .events = POLLIN},
		    {.fd = loop.alone ? -1 : service->keeper}, /* POLLERR is reported without being asked for */
		};

		for (unsigned i = 0; i < loop.count; i++)
			polled[3 + i] = (struct pollfd){.fd = loop.connections[i], .events = POLLIN};
		if (poll(polled, 3 + loop.count, TICK_MS) < 0 && errno != EINTR)
			log_error("cannot wait for requests: %m");
		connections_take(&loop, polled + 3);
		if (polled[1].revents && control_accept(service->control, &loop.connections[loop.count]) == 0)
			loop.count++;
		keeper_check(&loop, polled[2].revents);
		if (polled[0].revents)
			signal_take(&loop);
		service->tick(service->user);
	}
	for (unsigned i = 0; i < loop.count; i++)
		close(loop.connections[i]);
	return loop.end;
}
