/* uri: "SCHEME://HOST[:PORT]"; HOST is a name, an IPv4 address, or an IPv6 address in brackets. */
#ifndef COMMON_URI_H
#define COMMON_URI_H
#include <stdint.h>
#define URI_SCHEME_MAX 16
#define URI_HOST_MAX 256
struct uri {
	char scheme[URI_SCHEME_MAX];
	char host[URI_HOST_MAX]; /* without brackets */
	uint16_t port;
};
/* @default_port is used where there is none; port 0 may be written. -EINVAL: malformed. */
int uri_parse(const char *text, uint16_t default_port, struct uri *ret_uri);
#endif
