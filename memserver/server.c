/* server: see server.h. */
#include "memserver/server.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/uri.h"
#include "farpage/wire.h"
#include "memserver/peer.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

struct server {
	struct donor *donor;
	int signals;
	bool stop;
	char status[DONOR_STATUS_MAX]; /* as last told to the service manager */
};

static int signals_open(struct server *server)
{
	sigset_t set;

	/* A reader of standard output or of a socket that went away is no reason to end. */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	/* Blocked from here on, in the slab worker too, so that they arrive nowhere but in the loop. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	server->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (server->signals < 0) {
		log_error("cannot wait for signals: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

/* A connection is a descriptor; the usual 1024 would be the limit before --clients is. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void listen_error(const char *text, int status)
{
	if (status == -EADDRINUSE)
		log_error("%s is in use: another farpage-memserver may be running; stop it, or give another port with "
			  "--listen",
			  text);
	else if (status == -EADDRNOTAVAIL)
		log_error("%s is not an address of this machine: see `ip address`, and give one of those with --listen",
			  text);
	else if (status == -EACCES)
		log_error("no right to listen on %s: give a port above 1023 with --listen", text);
	else
		log_error("cannot listen on %s: %s; give --listen tcp://ADDRESS:PORT", text, strerror(-status));
}

static int listen_on(struct donor *donor, const char *text, char *ret_line, size_t size)
{
	struct fabric_listener *listener;
	struct uri uri;
	int status = fabric_listen(donor->fabric, text, &listener);

	if (status >= 0)
		status = uri_parse(text, WIRE_DEFAULT_PORT, &uri);
	if (status < 0) {
		listen_error(text, status);
		return status;
	}
	snprintf(ret_line, size, strchr(uri.host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", uri.scheme, uri.host,
		 fabric_listener_port(listener));
	return 0;
}

/* All or none, and only then told to the world. */
static int listen_all(struct donor *donor, const struct server_config *config)
{
	char lines[SERVER_LISTEN_MAX][URI_SCHEME_MAX + URI_HOST_MAX + 16];

	for (unsigned i = 0; i < config->listen_count; i++) {
		int status = listen_on(donor, config->listen[i], lines[i], sizeof lines[i]);

		if (status < 0)
			return status;
	}
	for (unsigned i = 0; i < config->listen_count; i++)
		printf("farpage-memserver: listening on %s\n", lines[i]);
	fflush(stdout);
	if (!config->donor.key && config->beyond_loopback)
		log_warning("no key, and --insecure: anyone who can reach this machine may take what it lends");
	else if (!config->donor.key)
		log_info("no key: listening on loopback only");
	return 0;
}

static void status_tell(struct server *server)
{
	char status[DONOR_STATUS_MAX];

	donor_status(server->donor, status);
	if (!strcmp(status, server->status))
		return;
	memcpy(server->status, status, sizeof status);
	sd_notifyf(0, "STATUS=%s", status);
}

static void signal_take(struct server *server)
{
	struct signalfd_siginfo info;

	if (read(server->signals, &info, sizeof info) != sizeof info)
		return;
	log_info("%s: stopping", strsignal((int)info.ssi_signo));
	sd_notify(0, "STOPPING=1");
	server->stop = true;
}

static void event_take(struct server *server, const struct fabric_event *event)
{
	if (event->kind != FABRIC_READABLE)
		peer_event(server->donor, event);
	else if (event->user == &server->signals)
		signal_take(server);
	else
		donor_slabs_ready(server->donor);
}

/* Rounded up, so that the deadline has passed when the wait is over. */
static int wait_ms(uint64_t deadline, uint64_t now)
{
	uint64_t ms;

	if (deadline == UINT64_MAX)
		return -1;
	ms = deadline > now ? (deadline - now + 999999) / 1000000 : 0;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int loop(struct server *server)
{
	struct donor *donor = server->donor;

	while (!server->stop) {
		struct fabric_event event;
		uint64_t deadline = donor_deadline(donor);
		/* One at a time: what an event makes us end must not be found in the events after it. */
		int count = fabric_wait(donor->fabric, &event, 1, wait_ms(deadline, clock_now()));

		if (count < 0 && count != -EINTR) {
			log_error("the fabric failed: %s", strerror(-count));
			return count;
		}
		if (count > 0)
			event_take(server, &event);
		if (deadline != UINT64_MAX)
			donor_tick(donor, clock_now());
		status_tell(server);
	}
	donor_leave(donor);
	return 0;
}

int server_run(const struct server_config *config)
{
	struct server server = {.signals = -1};
	int status = signals_open(&server);

	if (status < 0)
		return status;
	descriptors_raise();
	status = donor_open(&config->donor, &server.donor);
	if (status < 0)
		goto close_signals;
	status = listen_all(server.donor, config);
	if (status < 0)
		goto close_donor;
	status = fabric_watch(server.donor->fabric, server.signals, &server.signals);
	if (!status)
		status = fabric_watch(server.donor->fabric, slab_fd(server.donor->worker), server.donor);
	if (status < 0) {
		log_error("cannot start: %s", strerror(-status));
		goto close_donor;
	}
	sd_notify(0, "READY=1");
	status_tell(&server);
	status = loop(&server);
close_donor:
	donor_close(server.donor);
close_signals:
	close(server.signals);
	return status;
}
