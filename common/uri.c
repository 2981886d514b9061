/* uri: see uri.h. The grammar is that of RFC 3986, without user, path and query. A host that consists of digits and
   dots must be a valid IPv4 address. */
#include "common/uri.h"

#include "common/ascii.h"
#include "common/format.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Copies @length characters to @target as a string. Returns -EINVAL if a character is not a letter, a digit, or in
   @others. */
static int uri_copy(char *target, size_t target_size, const char *text, size_t length, const char *others)
{
	if (!length || length >= target_size)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		if (!ascii_is_letter(text[i]) && !ascii_is_digit(text[i]) && !memchr(others, text[i], strlen(others)))
			return -EINVAL;
	}
	memcpy(target, text, length);
	target[length] = '\0';
	return 0;
}

static int uri_scheme_parse(const char *text, size_t length, struct uri *uri)
{
	int error = uri_copy(uri->scheme, sizeof uri->scheme, text, length, "+-.");

	if (error)
		return error;
	for (char *at = uri->scheme; *at; at++)
		*at = ascii_lower(*at);
	return ascii_is_letter(uri->scheme[0]) ? 0 : -EINVAL;
}

/* Returns true if uri->host is an IPv6 address: "fe80::1" or "fe80::1%eth0". */
static bool uri_is_ipv6(const struct uri *uri)
{
	char address[INET6_ADDRSTRLEN];
	struct in6_addr binary;
	size_t length = strcspn(uri->host, "%");

	if (length >= sizeof address || (uri->host[length] && !uri->host[length + 1]))
		return false;
	memcpy(address, uri->host, length);
	address[length] = '\0';
	return inet_pton(AF_INET6, address, &binary) == 1;
}

bool uri_is_donor(const struct uri *uri)
{
	return strcmp(uri->scheme, "tcp") == 0 || strcmp(uri->scheme, "rdma") == 0 || strcmp(uri->scheme, "auto") == 0;
}

bool uri_is_numeric(const struct uri *uri)
{
	return strchr(uri->host, ':') || !uri->host[strspn(uri->host, "0123456789.")];
}

/* Parses the host, which has @length characters, including brackets. Returns 0 or -EINVAL. */
static int uri_host_parse(const char *text, size_t length, struct uri *uri)
{
	struct in_addr binary;
	int error;

	if (length && text[0] == '[') {
		error = uri_copy(uri->host, sizeof uri->host, text + 1, length - 2, ":.%_-");
		return error ? error : uri_is_ipv6(uri) ? 0 : -EINVAL;
	}
	error = uri_copy(uri->host, sizeof uri->host, text, length, "._-");
	if (error)
		return error;
	if (uri_is_numeric(uri) && inet_pton(AF_INET, uri->host, &binary) != 1)
		return -EINVAL;
	return 0;
}

static int uri_port_parse(const char *text, uint16_t *ret_port)
{
	unsigned port = 0;
	size_t length = strlen(text);

	if (!length || length > 5)
		return -EINVAL;
	for (; *text; text++) {
		if (!ascii_is_digit(*text))
			return -EINVAL;
		port = port * 10 + (unsigned)(*text - '0');
	}
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

int uri_parse(const char *text, uint16_t default_port, struct uri *ret_uri)
{
	struct uri uri = {.port = default_port};
	const char *separator = strstr(text, "://");

	if (!separator || uri_scheme_parse(text, (size_t)(separator - text), &uri))
		return -EINVAL;
	const char *host = separator + 3, *end;
	if (*host == '[') {
		end = strchr(host, ']');
		if (!end)
			return -EINVAL;
		end++;
	} else {
		end = host + strcspn(host, ":");
	}
	if (uri_host_parse(host, (size_t)(end - host), &uri))
		return -EINVAL;
	if (*end && (*end != ':' || uri_port_parse(end + 1, &uri.port)))
		return -EINVAL;
	*ret_uri = uri;
	return 0;
}

void uri_format(const struct uri *uri, char ret_text[URI_TEXT_MAX])
{
	format_text(ret_text, URI_TEXT_MAX, strchr(uri->host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", uri->scheme,
		    uri->host, uri->port);
}
