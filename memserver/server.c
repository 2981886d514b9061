/* server: see server.h. */
#include "memserver/server.h"

#include "common/clock.h"
#include "common/descriptors.h"
#include "common/events.h"
#include "common/log.h"
#include "common/size.h"
#include "common/uri.h"
#include "fabric/fabric.h"
#include "memserver/connection.h"
#include "memserver/donor_metrics.h"
#include "memserver/handover.h"
#include "memserver/shrink.h"
#include "wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define LISTEN_AGAIN_MS 1000
/* Minimum time between two status messages to the service manager. */
#define STATUS_NS UINT64_C(1000000000)

static int signals_open(struct server *server)
{
	sigset_t set;

	/* The program must continue if the reader of its standard output, or the peer of a socket, has gone. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	/* The slab worker inherits this mask, so that the signals arrive only in the loop. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	server->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (server->signals < 0) {
		log_error("cannot wait for signals: %s", strerror(errno));
		return -errno;
	}
	return 0;
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
	else if (status == -ENODEV)
		log_error(
		    "cannot listen on %s: this machine has no RDMA device at that address; give --listen tcp://..., "
		    "or auto://... for both (farpage doctor tells more)",
		    text);
	else if (status == -EACCES && strncmp(text, "rdma:", 5) == 0)
		log_error("no right to use this machine's RDMA devices for %s: allow reading and writing "
			  "/dev/infiniband/*, or run as root",
			  text);
	else if (status == -EACCES)
		log_error("no right to listen on %s: give a port above 1023 with --listen", text);
	else
		log_error("cannot listen on %s: %s; give --listen tcp://ADDRESS:PORT", text, strerror(-status));
}

/* The addresses to announce to clients. */
struct listening {
	char lines[2 * SERVER_LISTEN_MAX][URI_TEXT_MAX];
	unsigned count;
};

/* Listens at @uri with @scheme. If the port of @uri is 0, uses *port. Sets *port to the port taken. */
static int listen_on(struct donor *donor, const char *scheme, const struct uri *uri, uint16_t *port,
		     struct listening *listening)
{
	char *line = listening->lines[listening->count];
	struct fabric_listener *listener;
	struct uri taken = *uri;
	int status;

	snprintf(taken.scheme, sizeof taken.scheme, "%s", scheme);
	taken.port = uri->port ? uri->port : *port;
	uri_format(&taken, line);
	status = fabric_listen(donor->fabric, line, &listener);
	if (status < 0)
		return status;
	*port = taken.port = fabric_listener_port(listener);
	uri_format(&taken, line);
	listening->count++;
	return 0;
}

/* Listens over TCP, and on the same port over RDMA if the machine has a device for it. */
static int listen_auto(struct donor *donor, const struct uri *uri, struct listening *listening)
{
	uint16_t port = 0;
	int rdma = listen_on(donor, "rdma", uri, &port, listening), tcp;

	if (rdma < 0)
		log_info("listening on %s over TCP only: %s", uri->host,
			 rdma == -ENODEV ? "no RDMA device at that address" : strerror(-rdma));
	tcp = listen_on(donor, "tcp", uri, &port, listening);
	/* iWARP uses TCP's ports, so the RDMA listener has already taken the port. */
	if (rdma < 0 || tcp != -EADDRINUSE)
		return tcp;
	log_info("listening on %s over RDMA only: TCP's port %u is taken (by the RDMA device itself, if it is iWARP)",
		 uri->host, port);
	return 0;
}

static int listen_text(struct donor *donor, const char *text, struct listening *listening)
{
	struct uri uri;
	uint16_t port = 0;
	int status = uri_parse(text, FABRIC_DEFAULT_PORT, &uri);

	if (status == 0 && strcmp(uri.scheme, "auto") == 0)
		status = listen_auto(donor, &uri, listening);
	else if (status == 0)
		status = listen_on(donor, uri.scheme, &uri, &port, listening);
	if (status < 0)
		listen_error(text, status);
	return status;
}

/* Listens on all addresses or fails. After an upgrade, one address that works is enough, and the log names the
   addresses that fail. */
static int listen_try(struct donor *donor, const struct server_config *config, struct listening *listening)
{
	int failed = 0;

	for (unsigned i = 0; i < config->listen_count; i++) {
		int status = listen_text(donor, config->listen[i], listening);

		if (status < 0 && !config->handover)
			return status;
		if (status < 0)
			failed = status;
	}
	return listening->count ? 0 : failed;
}

static bool is_told_to_stop(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
}

/* Listens, and announces the addresses. After an upgrade it tries again until an address works, because clients would
   lose their pages if the program ended. */
static int listen_all(struct donor *donor, const struct server_config *config)
{
	struct listening listening = {.count = 0};
	int status;

	while ((status = listen_try(donor, config, &listening)) < 0) {
		if (!config->handover || is_told_to_stop())
			return status;
		watchdog_tell(&donor->watchdog);
		poll(NULL, 0, LISTEN_AGAIN_MS);
	}
	for (unsigned i = 0; i < listening.count; i++)
		printf("farpage-memserver: listening on %s\n", listening.lines[i]);
	fflush(stdout);
	if (!keyring_is_needed(config->donor.keys) && config->beyond_loopback)
		log_warning("no key, and --insecure: anyone who can reach this machine may take what it lends");
	else if (!keyring_is_needed(config->donor.keys))
		log_info("no key: listening on loopback only");
	return 0;
}

/* Logs that clients may lease slabs now. After an upgrade, another line says so. */
static void started_tell(const struct server_config *config)
{
	const struct lease_limits *limits = &config->donor.limits;
	char all[SIZE_TEXT_MAX], slab[SIZE_TEXT_MAX];

	if (!config->handover)
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_DONOR_STARTED, .donor = config->listen[0]),
			  "started: up to %s may be lent, in slabs of %s",
			  size_format(limits->slabs * limits->slab_bytes, all), size_format(limits->slab_bytes, slab));
}

/* Sends a changed status to the service manager, at most once a second, because sd_notify() waits and thereby delays
   all clients. */
static void status_tell(struct server *server, uint64_t now)
{
	char status[DONOR_STATUS_MAX];

	server->status_due = UINT64_MAX;
	donor_status(server->donor, status);
	if (!strcmp(status, server->status))
		return;
	if (server->status_told_at && now < server->status_told_at + STATUS_NS) {
		server->status_due = server->status_told_at + STATUS_NS;
		return;
	}
	memcpy(server->status, status, sizeof status);
	server->status_told_at = now;
	sd_notifyf(0, "STATUS=%s", status);
}

static void server_reload(struct server *server)
{
	const struct server_config *config = server->config;
	static struct keyring before; /* too large for the stack */

	if (config->reload && config->reload(config->user, &before) == 0) {
		donor_reload(server->donor, &config->donor, &before);
		shrink_reload(server->shrink, config->slabs, config->reserve);
	}
	memset(&before, 0, sizeof before);
}

bool server_ports_are_fixed(const struct server_config *config)
{
	for (unsigned i = 0; i < config->listen_count; i++) {
		struct uri uri;

		if (uri_parse(config->listen[i], FABRIC_DEFAULT_PORT, &uri) == 0 && uri.port)
			continue;
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED),
			  "not upgraded: --listen %s names no port, so the next program would have another; drain this "
			  "donor and start it again",
			  config->listen[i]);
		return false;
	}
	return true;
}

/* After a successful trial, suspends the clients, and replaces the program once they have disconnected. */
static void replace_step(struct server *server, uint64_t now)
{
	struct donor *donor = server->donor;

	if (!server->replace || server->stop)
		return;
	if (!donor->suspended) {
		log_info("upgrading: clients return to the next program and keep their leases");
		donor_suspend(donor);
		server->replace_at = now + UPGRADE_PATIENCE_NS;
	}
	if (donor_has_clients(donor) && now < server->replace_at)
		return;
	server->replace = false;
	server->replace_at = UINT64_MAX;
	if (upgrade_is_outdated(&server->upgrade, donor)) {
		upgrade_try(&server->upgrade, donor);
	} else {
		donor->watchdog.due = 0; /* the next program gets all of the service manager's time for its start */
		watchdog_tell(&donor->watchdog);
		upgrade_replace(&server->upgrade, donor);
	}
	donor_resume(donor);
}

static void signal_take(struct server *server)
{
	struct signalfd_siginfo info;

	if (read(server->signals, &info, sizeof info) != sizeof info)
		return;
	switch (info.ssi_signo) {
	case SIGHUP:
		server_reload(server);
		return;
	case SIGUSR2:
		if (!server->replace && server_ports_are_fixed(server->config))
			upgrade_try(&server->upgrade, server->donor);
		return;
	case SIGCHLD:
		server->replace |= upgrade_has_succeeded(&server->upgrade);
		return;
	default:
		log_info("%s: stopping", strsignal((int)info.ssi_signo));
		sd_notify(0, "STOPPING=1");
		server->stop = true;
	}
}

static void event_take(struct server *server, const struct fabric_event *event)
{
	if (event->kind != FABRIC_READABLE)
		connection_event(server->donor, event);
	else if (event->user == &server->signals)
		signal_take(server);
	else if (server->shrink && event->user == server->shrink)
		shrink_stalled(server->shrink);
	else
		donor_slabs_ready(server->donor);
}

/* Returns when the loop next has work of its own, which donor_deadline() does not cover. */
static uint64_t loop_due(const struct server *server)
{
	uint64_t due = server->shrink ? shrink_due(server->shrink) : UINT64_MAX;
	uint64_t left = watchdog_left(&server->donor->watchdog), watchdog;

	watchdog = left == UINT64_MAX ? UINT64_MAX : donor_now(server->donor) + left;
	due = watchdog < due ? watchdog : due;
	due = server->replace_at < due ? server->replace_at : due;
	due = upgrade_due(&server->upgrade) < due ? upgrade_due(&server->upgrade) : due;
	return server->status_due < due ? server->status_due : due;
}

int server_loop(struct server *server)
{
	struct donor *donor = server->donor;

	status_tell(server, donor_now(donor));
	while (!server->stop) {
		struct fabric_event event;
		uint64_t deadline = donor_deadline(donor), due = loop_due(server);

		if (server->metrics)
			donor_metrics_publish(server->metrics, donor, server->shrink);
		/* Takes one event at a time, because handling it may end a connection that a later event would refer
		   to. */
		int timeout_ms = patience_sleep(&donor->patience, clock_now(), due < deadline ? due : deadline);
		int count = fabric_wait(donor->fabric, &event, 1, timeout_ms);

		patience_wake(&donor->patience, clock_now());
		if (count < 0 && count != -EINTR) {
			log_error("the fabric failed: %s", strerror(-count));
			return count;
		}
		/* Takes the reading first, so that the donor offers no memory that is no longer available. */
		if (server->shrink)
			shrink_look(server->shrink, donor_now(donor));
		if (count > 0)
			event_take(server, &event);
		if (deadline != UINT64_MAX)
			donor_tick(donor, donor_now(donor));
		donor_end_deaf(donor);
		upgrade_expire(&server->upgrade, donor_now(donor));
		replace_step(server, donor_now(donor));
		status_tell(server, donor_now(donor));
		watchdog_tell(&donor->watchdog);
	}
	donor_leave(donor);
	return 0;
}

/* Watches the descriptors, other than those of clients, that wake the loop. */
static int watch_all(struct server *server)
{
	struct fabric *fabric = server->donor->fabric;
	int stalls = shrink_fd(server->shrink);
	int status = fabric_watch(fabric, server->signals, &server->signals);

	if (!status)
		status = fabric_watch(fabric, slab_fd(server->donor->worker), server->donor);
	if (!status && stalls >= 0)
		status = fabric_watch(fabric, stalls, server->shrink);
	if (status < 0)
		log_error("cannot start: %s", strerror(-status));
	return status;
}

/* Opens the donor, with the leases of the previous program if there are any. */
static int donor_begin(const struct server_config *config, struct donor **ret_donor)
{
	struct donor_config donor = config->donor;
	int status;

	if (config->handover)
		donor.slabs.inherited = &config->handover->files;
	status = donor_open(&donor, ret_donor);
	if (status == 0)
		watchdog_open(&(*ret_donor)->watchdog);
	if (status == 0 && config->handover)
		status = handover_adopt(config->handover, *ret_donor);
	return status;
}

int server_run(const struct server_config *config)
{
	const struct lease_limits *limits = &config->donor.limits;
	const struct pressure_config pressure = {
	    .slabs = config->slabs, .slab_bytes = limits->slab_bytes, .reserve = config->reserve};
	struct shrink shrink = {0};
	struct server server = {.config = config, .signals = -1, .shrink = &shrink, .replace_at = UINT64_MAX};
	int status = signals_open(&server);

	if (status < 0)
		return status;
	/* Each connection is a descriptor. The usual limit of 1024 may be too low for --clients. */
	descriptors_raise();
	upgrade_open(&server.upgrade, config->argv);
	status = donor_begin(config, &server.donor);
	if (status < 0)
		goto close_donor;
	if (config->drained) {
		log_warning("still drained, because %s exists: nothing is lent until `farpage donors undrain`",
			    config->donor.drain_file);
		lease_drain(server.donor->book, donor_now(server.donor), WIRE_DRAIN_WAIT, 0);
	}
	/* Before the donor listens: if the port for metrics is in use, the program must end before any client has
	   come. */
	if (config->metrics)
		status = donor_metrics_open(config->metrics, server.donor, &server.metrics);
	if (config->handover) /* after an upgrade, metrics are not worth the clients' pages */
		status = 0;
	if (status == 0)
		status = listen_all(server.donor, config);
	if (status < 0)
		goto close_donor;
	shrink_open(&shrink, &pressure, server.donor);
	status = watch_all(&server);
	if (status < 0)
		goto close_donor;
	sd_notify(0, "READY=1");
	started_tell(config);
	status = server_loop(&server);
close_donor:
	upgrade_close(&server.upgrade);
	donor_metrics_close(server.metrics);
	donor_close(server.donor);
	shrink_close(&shrink);
	close(server.signals);
	return status;
}
