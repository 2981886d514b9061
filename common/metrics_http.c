/* metrics_http: see metrics_http.h. */
#include "common/metrics_http.h"

#include "common/log.h"
#include "common/thread.h"
#include "common/uri.h"

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIBRARY "libmicrohttpd.so.12"
#define CONNECTION_BYTES ((size_t)16 << 10) /* memory for each connection; it limits the size of a request */
#define STACK_BYTES ((size_t)256 << 10)
#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics_http {
	struct MHD_Daemon *daemon;
	metrics_http_write *write;
	void *user;
	char text[METRICS_HTTP_TEXT_MAX]; /* used by the library's thread only */
};

/* --- The library ------------------------------------------------------------------------------------------------ */

#define FUNCTIONS(X)                                                                                                   \
	X(MHD_start_daemon)                                                                                            \
	X(MHD_stop_daemon)                                                                                             \
	X(MHD_create_response_from_buffer)                                                                             \
	X(MHD_add_response_header)                                                                                     \
	X(MHD_queue_response)                                                                                          \
	X(MHD_destroy_response)

#define MEMBER(name) __typeof__(name) *name;
static struct {
	FUNCTIONS(MEMBER)
} library;

int metrics_http_load(void)
{
	/* The library is never unloaded. */
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *found;

	if (!handle)
		goto fail;
#define FIND(name)                                                                                                     \
	found = dlsym(handle, #name);                                                                                  \
	if (!found)                                                                                                    \
		goto fail;                                                                                             \
	memcpy(&library.name, &found, sizeof found);
	FUNCTIONS(FIND)
	return 0;
fail:
	log_error("metrics cannot be served without " LIBRARY ": install it (Debian: libmicrohttpd12)");
	return -ELIBACC;
}

/* --- Answers, in the library's thread --------------------------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *text, size_t length)
{
	/* With MHD_RESPMEM_MUST_COPY, the library copies the text: the next answer may use the buffer before this
	   answer is sent. */
	struct MHD_Response *response =
	    library.MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	library.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, CONTENT_TYPE);
	library.MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		library.MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = library.MHD_queue_response(connection, status, response);
	library.MHD_destroy_response(response);
	return result;
}

static enum MHD_Result reply_line(struct MHD_Connection *connection, unsigned status, const char *line)
{
	return reply(connection, status, line, strlen(line));
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *path, const char *method,
			      const char *version, const char *body, size_t *body_size, void **request)
{
	struct metrics_http *http = user;
	struct metrics_text text = {.out = {.at = http->text, .size = sizeof http->text}};

	(void)version, (void)body, (void)body_size, (void)request;
	if (strcmp(path, "/metrics") != 0)
		return reply_line(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return reply_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "use GET\n");
	if (!http->write(http->user, &text))
		return reply_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no metrics yet\n");
	/* Does not send a part of the metrics, because the peer would take it for the whole. */
	if (text.out.cut)
		return reply_line(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "too many metrics\n");
	return reply(connection, MHD_HTTP_OK, text.out.at, text.out.length);
}

/* --- Listening -------------------------------------------------------------------------------------------------- */

struct place {
	struct sockaddr_storage address;
	socklen_t length;
};

/* Parses the value of --metrics, without the resolver. Returns 0 or -EINVAL. */
static int place_parse(const char *text, struct place *ret_place)
{
	static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	const char *colon = strrchr(text, ':');
	char whole[URI_TEXT_MAX], port[8];
	struct addrinfo *found;
	struct uri uri;
	int length;

	length = snprintf(whole, sizeof whole, "tcp://%s%s", colon ? "" : "127.0.0.1:", text);
	/* Rejects an address without a port: its last colon is inside the brackets of an IPv6 address. */
	if (length < 0 || (size_t)length >= sizeof whole || (colon && strchr(colon, ']')) ||
	    uri_parse(whole, 0, &uri) < 0)
		return -EINVAL;
	snprintf(port, sizeof port, "%u", uri.port);
	if (getaddrinfo(strcmp(uri.host, "localhost") == 0 ? "127.0.0.1" : uri.host, port, &hints, &found))
		return -EINVAL;
	memcpy(&ret_place->address, found->ai_addr, found->ai_addrlen);
	ret_place->length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

int metrics_http_check(const char *address)
{
	struct place place;

	if (place_parse(address, &place) == 0)
		return 0;
	log_error("--metrics '%s': not an address; write it like 9470, for this machine only, or 10.0.0.7:9470",
		  address);
	return -EINVAL;
}

static int place_listen(const struct place *place)
{
	const int on = 1;
	int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), status;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (place->address.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&place->address, place->length) == 0 &&
	    listen(fd, METRICS_HTTP_PEERS) == 0)
		return fd;
	status = -errno;
	close(fd);
	return status;
}

static void listen_error(const char *address, int status)
{
	if (status == -EADDRINUSE)
		log_error("--metrics %s: the port is in use; give another one, or end the program that has it",
			  address);
	else if (status == -EADDRNOTAVAIL)
		log_error("--metrics %s: not an address of this machine; see `ip address`, and give one of those",
			  address);
	else if (status == -EACCES)
		log_error("--metrics %s: no right to use that port; give one above 1023", address);
	else
		log_error("--metrics %s: cannot listen: %s", address, strerror(-status));
}

static void place_log(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	char host[INET6_ADDRSTRLEN + 32], port[8];

	if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
	    getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	log_info(address.ss_family == AF_INET6 ? "metrics are at http://[%s]:%s/metrics"
					       : "metrics are at http://%s:%s/metrics",
		 host, port);
}

struct start {
	struct metrics_http *http;
	int listener;
};

/* The library's thread inherits the scheduling policy of its creator. So a thread of its own creates it: a caller with
   a real-time policy keeps that, and need not leave it for a moment. */
static void *start_main(void *argument)
{
	const struct start *start = argument;
	const struct sched_param none = {0};

	sched_setscheduler(0, SCHED_OTHER, &none);
	/* Uses poll(2), because select(2) does not support descriptors from 1024 on. The library owns the socket,
	   even if the call fails. */
	start->http->daemon = library.MHD_start_daemon(
	    MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, answer, start->http, MHD_OPTION_LISTEN_SOCKET, start->listener,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)METRICS_HTTP_PEERS, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)METRICS_HTTP_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
	    MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_END);
	return NULL;
}

/* Returns 0 or -errno. The caller must not use @listener any more, even after an error. */
static int daemon_start(struct metrics_http *http, int listener)
{
	struct start start = {.http = http, .listener = listener};
	pthread_t thread;
	int error = thread_start(&thread, NULL, STACK_BYTES, start_main, &start);

	if (error < 0) {
		close(listener);
		return error;
	}
	pthread_join(thread, NULL);
	return http->daemon ? 0 : -EIO;
}

int metrics_http_open(const char *address, metrics_http_write *write, void *user, struct metrics_http **ret_http)
{
	struct place place;
	struct metrics_http *http;
	int status = metrics_http_load(), fd;

	if (status < 0)
		return status;
	fd = place_parse(address, &place) < 0 ? -EINVAL : place_listen(&place);
	if (fd < 0) {
		listen_error(address, fd);
		return fd;
	}
	place_log(fd);
	http = calloc(1, sizeof *http);
	if (!http) {
		close(fd);
		return -ENOMEM;
	}
	*http = (struct metrics_http){.write = write, .user = user};
	status = daemon_start(http, fd);
	if (status == 0) {
		*ret_http = http;
		return 0;
	}
	free(http);
	log_error("--metrics %s: " LIBRARY " cannot start: %s", address, strerror(-status));
	return status;
}

void metrics_http_close(struct metrics_http *http)
{
	if (!http)
		return;
	library.MHD_stop_daemon(http->daemon);
	free(http);
}
