/* fabric: opens a fabric and chooses the backend of an address, see fabric/fabric.h. Polling and waiting are in
   wait.c. */
#include "fabric/fabric.h"

#include "common/log.h"
#include "fabric/address.h"
#include "fabric/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool rdma_used; /* in this process or in a parent */

const struct fabric_backend *const fabric_backends[FABRIC_BACKENDS] = {&tcp_backend, &verbs_backend};

struct poller *fabric_poller(struct fabric *fabric)
{
	return fabric->poller;
}

const struct fabric_config *fabric_get_config(const struct fabric *fabric)
{
	return &fabric->config;
}

void fabric_touch(struct fabric *fabric)
{
	fabric->touched = true;
}

void fabric_count_read(struct fabric *fabric, uint32_t bytes)
{
	fabric->served.reads++;
	fabric->served.read_bytes += bytes;
}

void fabric_count_write(struct fabric *fabric, uint32_t bytes)
{
	fabric->served.writes++;
	fabric->served.write_bytes += bytes;
}

void fabric_get_served(const struct fabric *fabric, struct fabric_served *ret_served)
{
	*ret_served = fabric->served;
}

/* --- Opening and closing ---------------------------------------------------------------------------------- */

static void config_complete(struct fabric_config *config)
{
	const struct fabric_config usual = FABRIC_CONFIG_DEFAULT;

	if (!config->depth)
		config->depth = usual.depth;
	if (config->depth > FABRIC_DEPTH_MAX)
		config->depth = FABRIC_DEPTH_MAX;
	if (!config->connect_ms)
		config->connect_ms = usual.connect_ms;
	if (!config->io_ms)
		config->io_ms = usual.io_ms;
}

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	struct fabric *fabric = calloc(1, sizeof *fabric);
	int status;

	if (!fabric)
		return -ENOMEM;
	fabric->config = config ? *config : FABRIC_CONFIG_DEFAULT;
	config_complete(&fabric->config);
	fabric->told.what = "lines about what peers did";
	status = poller_open(&fabric->poller);
	if (status < 0)
		goto free_fabric;
	status = wait_open(fabric);
	if (status < 0)
		goto close_poller;
	*ret_fabric = fabric;
	return 0;

close_poller:
	poller_close(fabric->poller);
free_fabric:
	free(fabric);
	return status;
}

void fabric_close(struct fabric *fabric)
{
	if (!fabric)
		return;
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (fabric->states[i])
			fabric_backends[i]->close(fabric->states[i]);
	wait_close(fabric);
	poller_close(fabric->poller);
	free(fabric);
}

/* --- Dispatch by scheme ----------------------------------------------------------------------------------- */

/* A parsed address and its backend. If route_find() has returned 0, the backend's state exists. */
struct route {
	struct uri uri;
	const struct fabric_backend *backend;
	void *state;
};

static int route_find(struct fabric *fabric, const char *text, struct route *ret_route)
{
	struct route route = {0};
	int status = uri_parse(text, FABRIC_DEFAULT_PORT, &route.uri);

	if (status < 0)
		return status;
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++) {
		if (strcmp(fabric_backends[i]->scheme, route.uri.scheme) != 0)
			continue;
		if (!fabric->states[i]) {
			status = fabric_backends[i]->open(fabric, &fabric->states[i]);
			rdma_used |= status == 0 && fabric_backends[i] == &verbs_backend;
		}
		route.backend = fabric_backends[i];
		route.state = fabric->states[i];
		*ret_route = route;
		return status;
	}
	return -EINVAL;
}

int fabric_after_fork(void)
{
	if (rdma_used)
		return -EOPNOTSUPP;
	address_after_fork();
	return 0;
}

int fabric_listen(struct fabric *fabric, const char *uri, struct fabric_listener **ret_listener)
{
	struct route route;
	int status = route_find(fabric, uri, &route);

	if (status < 0)
		return status;
	return route.backend->listen(route.state, &route.uri, ret_listener);
}

uint16_t fabric_listener_port(const struct fabric_listener *listener)
{
	return listener->port;
}

int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn)
{
	struct fabric_conn *conn;
	struct route route;
	int status;

	if (private_size > FABRIC_PRIVATE_MAX)
		return -EINVAL;
	status = route_find(fabric, uri, &route);
	if (status < 0)
		return status;
	status = route.backend->connect(route.state, domain, &route.uri, private_data, private_size, &conn);
	if (status < 0)
		return status;
	conn->user = user;
	*ret_conn = conn;
	return 0;
}

int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user)
{
	conn->domain = domain;
	conn->user = user;
	return conn->backend->accept(conn);
}

void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size)
{
	conn->backend->reject(conn, private_data,
			      private_size < FABRIC_PRIVATE_MAX ? private_size : FABRIC_PRIVATE_MAX);
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (conn)
		conn->backend->disconnect(conn);
}

const char *fabric_conn_peer(const struct fabric_conn *conn)
{
	return conn->peer;
}

uint64_t fabric_conn_origin(const struct fabric_conn *conn)
{
	return conn->origin;
}

size_t fabric_conn_memory(const struct fabric_conn *conn)
{
	return conn->backend->memory(conn);
}

struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	return conn->backend->export(region, conn);
}

int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	return conn->backend->post(conn, ops, count);
}

unsigned fabric_room(const struct fabric_conn *conn)
{
	return conn->backend->room(conn);
}

int fabric_send(struct fabric_conn *conn, const void *message, size_t size)
{
	return conn->backend->send(conn, message, size);
}
