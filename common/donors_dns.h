/*
 * donors_dns: finds donors by DNS. "dns+srv://NAME" stands for the donors in the SRV records (RFC 2782) of
 * _farpage._tcp.NAME. If NAME begins with "_", the records of NAME itself are used. The second label of NAME is then
 * the scheme of the donors: "dns+srv://_farpage._rdma.NAME" names donors by rdma://.
 *
 * Priorities and weights do not matter, because a client uses all donors. The donors are sorted by their addresses, so
 * that every lookup gives the same order.
 *
 * Threads: the main thread. A lookup may block for some seconds, and calls malloc(). So it must not run inside a
 * program that is not farpage's own.
 */
#ifndef COMMON_DONORS_DNS_H
#define COMMON_DONORS_DNS_H

#include "common/config.h"

#include <stdbool.h>
#include <stddef.h>

bool donors_dns_is_name(const char *donor);
/* Looks up "dns+srv://NAME" and appends the URIs of the donors to @donors. The strings exist until exit. Returns 0, or
   -EINVAL after one logged line; @donors is then unchanged. */
int donors_dns_append(const char *name, struct config_list *donors);

/* Appends the donors in @answer, an untrusted DNS message of @size bytes, as @scheme://TARGET:PORT. Returns the same as
   donors_dns_append(). @name is for the log. */
int donors_dns_parse(const char *name, const char *scheme, const unsigned char *answer, size_t size,
		     struct config_list *donors);

#endif
