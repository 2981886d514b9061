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

/* Longest text of a uri, with its end. */
#define URI_TEXT_MAX (URI_SCHEME_MAX + URI_HOST_MAX + 16)
/* Its text, an IPv6 address in brackets. */
void uri_format(const struct uri *uri, char ret_text[URI_TEXT_MAX]);
#endif
