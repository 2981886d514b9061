/* uri: parses and formats "SCHEME://HOST[:PORT]". HOST is a name, an IPv4 address, or an IPv6 address in brackets. */
#ifndef COMMON_URI_H
#define COMMON_URI_H
#include <stdbool.h>
#include <stdint.h>
#define URI_SCHEME_MAX 16
#define URI_HOST_MAX 256
struct uri {
	char scheme[URI_SCHEME_MAX];
	char host[URI_HOST_MAX]; /* without brackets */
	uint16_t port;
};
/* Parses @text. If it has no port, the port is @default_port. Port 0 is allowed. Returns 0 or -EINVAL. */
int uri_parse(const char *text, uint16_t default_port, struct uri *ret_uri);

/* Returns true if the scheme is that of a donor: tcp, rdma or auto. */
bool uri_is_donor(const struct uri *uri);
/* Returns true if the host is an IPv4 or IPv6 address, and not a name. @uri must come from uri_parse(). */
bool uri_is_numeric(const struct uri *uri);

/* Size of the longest text, with its zero byte. */
#define URI_TEXT_MAX (URI_SCHEME_MAX + URI_HOST_MAX + 16)
/* Puts an IPv6 address into brackets. */
void uri_format(const struct uri *uri, char ret_text[URI_TEXT_MAX]);
#endif
