/* donor_metrics: see donor_metrics.h. */
#include "memserver/donor_metrics.h"

#include "common/log.h"
#include "common/metrics_http.h"
#include "memserver/shrink.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* All fields are uint64_t, because donor_metrics_publish() copies word by word. */
struct figures {
	uint64_t capacity_bytes, reserve_bytes, donated_bytes, leased_bytes, free_bytes, slab_bytes;
	uint64_t slabs_in_use, slabs_revoking, clients, strangers;
	uint64_t draining, short_of_memory, stalls;
	struct donor_totals totals;
	struct fabric_served served;
	uint64_t key_count;
	struct key_use {
		char name[KEYRING_NAME_SIZE];
		uint64_t leased_bytes, quota_bytes; /* quota: 0 for no limit */
	} keys[KEYRING_MAX];
};
#define WORDS (sizeof(struct figures) / sizeof(uint64_t))
static_assert(sizeof(struct figures) % sizeof(uint64_t) == 0, "figures are words");

#define NEVER UINT64_MAX

struct donor_metrics {
	struct metrics_http *http;
	uint64_t started_s;
	uint64_t shares; /* value of lease_book->shares when the use of keys was last published, or NEVER */
	union {
		struct figures published;
		uint64_t words[WORDS]; /* written and read with relaxed atomics */
	};
};

#define FIGURE(name, kind, help, member)                                                                               \
	{                                                                                                              \
		"farpage_memserver_" name, METRICS_##kind, help, offsetof(struct figures, member)                      \
	}
static const struct metrics_figure figures[] = {
    FIGURE("capacity_bytes", GAUGE, "Memory that the settings allow to lend (--donate).", capacity_bytes),
    FIGURE("reserve_bytes", GAUGE, "Memory that stays available to this machine (--reserve).", reserve_bytes),
    FIGURE("donated_bytes", GAUGE, "Memory that the donor can lend at present, leased memory included.", donated_bytes),
    FIGURE("leased_bytes", GAUGE, "Memory of slabs that clients lease.", leased_bytes),
    FIGURE("free_bytes", GAUGE, "Memory that clients can still lease, or as soon as it is cleared.", free_bytes),
    FIGURE("slab_bytes", GAUGE, "The size of a slab (--slab).", slab_bytes),
    FIGURE("slabs_in_use", GAUGE, "Slabs that are not free.", slabs_in_use),
    FIGURE("slabs_revoking", GAUGE, "Slabs that the donor has asked back and that are not released yet.",
	   slabs_revoking),
    FIGURE("clients", GAUGE, "Clients with a session, those within their grace time included.", clients),
    FIGURE("strangers", GAUGE, "Connections that have proved nothing yet.", strangers),
    FIGURE("draining", GAUGE, "1 while the donor is drained.", draining),
    FIGURE("memory_short", GAUGE, "1 while this machine is short of memory, so that less is lent.", short_of_memory),
    FIGURE("memory_stalls_total", COUNTER, "Reports of the kernel that tasks stall for lack of memory.", stalls),
    FIGURE("slabs_granted_total", COUNTER, "Slabs leased to clients.", totals.granted),
    FIGURE("slabs_recalled_total", COUNTER, "Slabs that the donor has asked back.", totals.recalled),
    FIGURE("slabs_returned_total", COUNTER, "Slabs that clients have released.", totals.returned),
    FIGURE("slabs_taken_total", COUNTER, "Recalled slabs that the donor took at their deadline.", totals.taken),
    FIGURE("clients_vanished_total", COUNTER, "Sessions of clients that fell silent or broke off.", totals.vanished),
};

/* Values of the label `reason`. */
static const char *const reasons[] = {
    [WIRE_REASON_NONE] = "none",
    [WIRE_REASON_VERSION] = "version",
    [WIRE_REASON_MALFORMED] = "malformed",
    [WIRE_REASON_KEY] = "wrong_key",
    [WIRE_REASON_KEY_NEEDED] = "key_needed",
    [WIRE_REASON_KEY_UNKNOWN] = "key_unknown",
    [WIRE_REASON_FULL] = "full",
    [WIRE_REASON_NO_SESSION] = "no_session",
    [WIRE_REASON_REPLAY] = "replay",
    [WIRE_REASON_LEAVING] = "leaving",
    [WIRE_REASON_DRAINING] = "draining",
    [WIRE_REASON_TAKEN] = "taken",
    [WIRE_REASON_ADMIN] = "admin",
    [DONOR_REFUSED_CROWD] = "crowd",
    [DONOR_REFUSED_LATE] = "late",
};
static_assert(sizeof reasons / sizeof *reasons == DONOR_REFUSED_COUNT, "a label for each reason");

/* Adds a counter of reads and writes that came over TCP. */
static void served_write(struct metrics_text *text, const char *name, const char *help, uint64_t reads, uint64_t writes)
{
	const struct metrics_label read[] = {{"op", "read"}, {NULL, NULL}}, write[] = {{"op", "write"}, {NULL, NULL}};

	metrics_family(text, name, METRICS_COUNTER, help);
	metrics_sample(text, read, (double)reads);
	metrics_sample(text, write, (double)writes);
}

/* Adds the use of each key. Without keys there are no such families. While the donor's thread publishes new keys, a
   name may still be empty. */
static void keys_write(struct metrics_text *text, const struct key_use *keys, uint64_t count)
{
	if (!count)
		return;
	metrics_family(text, "farpage_memserver_key_leased_bytes", METRICS_GAUGE,
		       "Memory that the clients with a key of this name lease.");
	for (uint64_t i = 0; i < count; i++) {
		const struct metrics_label key[] = {{"key", keys[i].name}, {NULL, NULL}};

		if (*keys[i].name)
			metrics_sample(text, key, (double)keys[i].leased_bytes);
	}
	metrics_family(text, "farpage_memserver_key_quota_bytes", METRICS_GAUGE,
		       "The quota of a key's name (--client-quota). A name without a quota has no sample.");
	for (uint64_t i = 0; i < count; i++) {
		const struct metrics_label key[] = {{"key", keys[i].name}, {NULL, NULL}};

		if (*keys[i].name && keys[i].quota_bytes)
			metrics_sample(text, key, (double)keys[i].quota_bytes);
	}
}

static bool metrics_write(void *user, struct metrics_text *text)
{
	static const char *const names[2] = {"farpage_memserver_build_info", "farpage_memserver_start_time_seconds"};
	const struct donor_metrics *metrics = user;
	union {
		struct figures now;
		uint64_t words[WORDS];
	} copy;

	for (size_t i = 0; i < WORDS; i++)
		copy.words[i] = __atomic_load_n(&metrics->words[i], __ATOMIC_RELAXED);
	metrics_program(text, NULL, names, metrics->started_s);
	metrics_figures(text, NULL, figures, sizeof figures / sizeof *figures, &copy.now);
	metrics_family(text, "farpage_memserver_refused_total", METRICS_COUNTER, "Connections and handshakes refused.");
	for (unsigned i = WIRE_REASON_NONE + 1; i < DONOR_REFUSED_COUNT; i++) {
		const struct metrics_label reason[] = {{"reason", reasons[i]}, {NULL, NULL}};

		metrics_sample(text, reason, (double)copy.now.totals.refused[i]);
	}
	served_write(text, "farpage_memserver_tcp_requests_total",
		     "Requests for pages that came over TCP. A device serves those over RDMA, unseen by the donor.",
		     copy.now.served.reads, copy.now.served.writes);
	served_write(text, "farpage_memserver_tcp_bytes_total", "Bytes of the requests for pages that came over TCP.",
		     copy.now.served.read_bytes, copy.now.served.write_bytes);
	keys_write(text, copy.now.keys, copy.now.key_count);
	return true;
}

/* Fills in the use of each key's name. */
static void keys_count(struct figures *now, const struct donor *donor)
{
	const struct keyring *keyring = donor->config.keys;

	for (unsigned i = 0; keyring && i < keyring->count; i++) {
		const struct keyring_key *key = &keyring->keys[i];

		if (keyring_find(keyring, key->name) != key)
			continue; /* an earlier key has this name */
		struct key_use *use = &now->keys[now->key_count++];
		memcpy(use->name, key->name, sizeof use->name);
		use->leased_bytes = lease_owner_slabs(donor->book, key->name) * donor->book->limits.slab_bytes;
		use->quota_bytes = key->quota;
	}
}

void donor_metrics_publish(struct donor_metrics *metrics, const struct donor *donor, const struct shrink *shrink)
{
	const struct lease_book *book = donor->book;
	struct wire_capacity capacity;
	union {
		struct figures now;
		uint64_t words[WORDS];
	} copy;

	lease_capacity(book, &capacity);
	copy.now = (struct figures){
	    .capacity_bytes = book->limits.slabs * book->limits.slab_bytes,
	    .donated_bytes = capacity.donated,
	    .leased_bytes = capacity.leased,
	    .free_bytes = capacity.donated - capacity.leased,
	    .slab_bytes = capacity.slab_bytes,
	    .slabs_in_use = lease_in_use(book),
	    .slabs_revoking = book->revoking,
	    .clients = capacity.clients,
	    .strangers = donor->handshake_count,
	    .draining = book->draining,
	    .short_of_memory = book->pressed,
	    .totals = donor->totals,
	};
	if (shrink) {
		copy.now.capacity_bytes = shrink->pressure.config.slabs * book->limits.slab_bytes;
		copy.now.reserve_bytes = shrink->pressure.config.reserve;
		copy.now.stalls = shrink->stalls;
	}
	fabric_get_served(donor->fabric, &copy.now.served);
	/* The use of keys changes less often than the donor's thread publishes. */
	size_t words = offsetof(struct figures, key_count) / sizeof(uint64_t);
	if (metrics->shares != book->shares) {
		metrics->shares = book->shares;
		keys_count(&copy.now, donor);
		words = WORDS;
	}
	for (size_t i = 0; i < words; i++)
		__atomic_store_n(&metrics->words[i], copy.words[i], __ATOMIC_RELAXED);
}

int donor_metrics_open(const char *address, const struct donor *donor, struct donor_metrics **ret_metrics)
{
	struct donor_metrics *metrics = calloc(1, sizeof *metrics);
	int status;

	if (!metrics) {
		log_error("cannot serve metrics: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	metrics->started_s = (uint64_t)time(NULL);
	metrics->shares = NEVER;
	donor_metrics_publish(metrics, donor, NULL);
	status = metrics_http_open(address, metrics_write, metrics, &metrics->http);
	if (status < 0) {
		free(metrics);
		return status;
	}
	*ret_metrics = metrics;
	return 0;
}

void donor_metrics_close(struct donor_metrics *metrics)
{
	if (!metrics)
		return;
	metrics_http_close(metrics->http);
	free(metrics);
}
