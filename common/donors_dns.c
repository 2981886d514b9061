/* donors_dns: see donors_dns.h. */
#include "common/donors_dns.h"

#include "common/log.h"
#include "common/uri.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "dns+srv://"
#define ANSWER_MAX 65535
#define TRIES 2      /* per name server */
#define TRY_S 2      /* the first try waits this long, the second twice as long */
#define SRV_TARGET 6 /* the data of a record: priority, weight, port (16 bits each), target */

bool donors_dns_is_name(const char *donor)
{
	return strncmp(donor, PREFIX, strlen(PREFIX)) == 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the donor of an SRV record as a new string, or NULL if the record names no donor. */
static char *donor_of(const char *scheme, const ns_msg *message, const ns_rr *record)
{
	const unsigned char *data = ns_rr_rdata(*record);
	char target[NS_MAXDNAME], *donor;
	struct uri uri;

	if (ns_rr_rdlen(*record) <= SRV_TARGET ||
	    dn_expand(ns_msg_base(*message), ns_msg_end(*message), data + SRV_TARGET, target, sizeof target) < 0)
		return NULL;
	/* The target "." says that there is no such service (RFC 2782). dn_expand() writes it as "". */
	if (asprintf(&donor, "%s://%s:%u", scheme, target, ns_get16(data + 4)) < 0)
		return NULL;
	if (uri_parse(donor, 0, &uri) == 0 && uri.port)
		return donor;
	free(donor);
	return NULL;
}

static bool answer_read(const char *scheme, const unsigned char *answer, size_t size, char *donors[],
			unsigned *ret_count)
{
	ns_msg message;
	ns_rr record;
	unsigned count = 0;

	if (ns_initparse(answer, (int)size, &message))
		return false;
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
		if (ns_parserr(&message, ns_s_an, i, &record))
			break; /* the records before this one are good */
		donors[count] = ns_rr_type(record) == ns_t_srv ? donor_of(scheme, &message, &record) : NULL;
		count += donors[count] != NULL;
	}
	*ret_count = count;
	return true;
}

int donors_dns_parse(const char *name, const char *scheme, const unsigned char *answer, size_t size,
		     struct config_list *donors)
{
	static char *found[UINT16_MAX]; /* as many as the records of an answer */
	unsigned count = 0, room = CONFIG_LIST_MAX - donors->count;

	if (!answer_read(scheme, answer, size, found, &count))
		log_error("--donor %s: the DNS server's answer is malformed", name);
	else if (count == 0)
		log_error("--donor %s: the SRV records in DNS name no donor", name);
	else if (count > room)
		log_error("--donor %s: DNS has %u donors, and only %u more can be used", name, count, room);
	if (count == 0 || count > room) {
		while (count)
			free(found[--count]);
		return -EINVAL;
	}
	qsort(found, count, sizeof found[0], by_text);
	for (unsigned i = 0; i < count; i++)
		donors->items[donors->count++] = found[i];
	return 0;
}

/* Writes the DNS name to look up, and the scheme of the donors. Returns false if @name is malformed. */
static bool query_of(const char *name, char ret_query[NS_MAXDNAME], char ret_scheme[URI_SCHEME_MAX])
{
	const char *host = name + strlen(PREFIX), *label = strchr(host, '.');
	struct uri uri = {.scheme = "tcp"};
	size_t length;

	if (*host == '_') {
		length = label && label[1] == '_' ? strcspn(label + 2, ".") : 0;
		if (!length || length >= sizeof uri.scheme)
			return false;
		snprintf(uri.scheme, sizeof uri.scheme, "%.*s", (int)length, label + 2);
	}
	strcpy(ret_scheme, uri.scheme);
	return *host && !strpbrk(host, ":/") && uri_is_donor(&uri) &&
	       snprintf(ret_query, NS_MAXDNAME, "%s%s", *host == '_' ? "" : "_farpage._tcp.", host) < NS_MAXDNAME;
}

static void tell_failure(const char *name, const char *query, int error)
{
	if (error == HOST_NOT_FOUND || error == NO_DATA)
		log_error("--donor %s: DNS has no SRV record %s", name, query);
	else
		log_error("--donor %s: no DNS server answers for %s; see /etc/resolv.conf", name, query);
}

int donors_dns_append(const char *name, struct config_list *donors)
{
	struct __res_state resolver = {0};
	char query[NS_MAXDNAME], scheme[URI_SCHEME_MAX];
	unsigned char *answer = malloc(ANSWER_MAX);
	int size, error = -EINVAL;

	if (!query_of(name, query, scheme)) {
		log_error("--donor %s: give " PREFIX "NAME or " PREFIX "_farpage._rdma.NAME", name);
	} else if (!answer || res_ninit(&resolver)) {
		log_error("--donor %s: the resolver does not start: %m", name);
	} else {
		resolver.retry = TRIES;
		resolver.retrans = TRY_S;
		size = res_nsearch(&resolver, query, ns_c_in, ns_t_srv, answer, ANSWER_MAX);
		if (size < 0)
			tell_failure(name, query, resolver.res_h_errno);
		else
			error = donors_dns_parse(name, scheme, answer, (size_t)size, donors);
		res_nclose(&resolver);
	}
	free(answer);
	return error;
}
