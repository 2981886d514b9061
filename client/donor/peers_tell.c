/* peers_tell: see peers_tell.h. */
#include "client/donor/peers_tell.h"

#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>

/* Least time between two lines about chunks that leave for the backup. */
#define LEAVING_NS UINT64_C(60000000000)

/* Returns @status in a few words. */
static const char *death_name(int status)
{
	switch (status) {
	case -ECONNRESET:
	case -EPIPE:
		return "connection reset";
	case -ECONNREFUSED:
		return "connection refused";
	case -ETIMEDOUT:
		return "no answer in time";
	case -EPROTO:
		return "it broke the protocol";
	case -EACCES:
		return "it refused a request";
	default:
		return format_errno(status);
	}
}

void peers_tell_broke(const struct far_peer *peer)
{
	log_info("donor %s does not answer (%s)", peer->uri, death_name(peer->comeback.status));
}

void peers_tell_away(const struct far *far, struct far_peer *peer)
{
	if (peer->told)
		return;
	peer->told = true;
	log_warning("donor %s does not answer (%s): trying to reach it again for %.3g s", peer->uri,
		    death_name(peer->comeback.status), far->config.timeout_ms / 1e3);
}

void peers_tell_back(const struct far_peer *peer)
{
	uint64_t away = clock_now() - peer->away_at;
	double seconds = (double)away / 1e9;

	if (peer->comeback.anew)
		log_warning("donor %s is back, with nothing of ours: it is used again", peer->uri);
	else if (peer->told || (!peer->adopted && away >= PEER_TELL_NS))
		log_warning("donor %s answers again, after %.3g s", peer->uri, seconds);
	else if (peer->adopted)
		log_info("donor %s has %" PRIu64 " slabs of the store adopted", peer->uri, peer->claims.held);
	else
		log_info("donor %s answers again, after %.3g s", peer->uri, seconds);
}

void peers_tell_lost(const struct far *far, const struct far_peer *peer)
{
	const struct donor *donor = &peer->session.donor;
	const char *fate = far->backup_path ? "what it alone held is on the backup" : "what it held is lost";
	char text[DONOR_EXPLAIN_MAX];
	const char *why = donor->reason ? wire_reason_name(donor->reason) : death_name(peer->comeback.status);

	/* While adopting, no page is lost yet. */
	if (far->adopting && peer->comeback.end == COMEBACK_REFUSED) {
		log_error("donor %s %s", peer->uri, donor_explain(donor, text));
		return;
	}
	if (far->adopting && peer->comeback.end == COMEBACK_TOO_LATE) {
		log_error("donor %s does not answer (%s): what it holds cannot be adopted", peer->uri, why);
		return;
	}
	switch (peer->comeback.end) {
	case COMEBACK_RESTARTED:
		log_error("donor %s has restarted: %s", peer->uri, fate);
		return;
	case COMEBACK_FORGOTTEN:
		log_error("donor %s is back, but had given up what it held: %s", peer->uri,
			  far->backup_path ? fate : "it is lost");
		return;
	case COMEBACK_LIVES:
	case COMEBACK_TOO_LATE:
	case COMEBACK_REFUSED:
		log_error("donor %s is gone (%s): %s", peer->uri, why, fate);
	}
}

void peers_tell_grace(const struct far *far, const struct far_peer *peer)
{
	const struct donor *donor = &peer->session.donor;
	const uint32_t patience_ms = far->config.timeout_ms;

	if (donor->grace_ms < patience_ms)
		log_info("donor %s keeps pages for %u s when it hears nothing of this process, which waits for it for "
			 "%u s: restart it with a longer --grace",
			 peer->uri, donor->grace_ms / 1000, patience_ms / 1000);
	if (far->state && donor->grace_ms < donor->config.closed_ms)
		log_warning(
		    "donor %s keeps pages for %u s when this process has ended, instead of %u s: restart it with a "
		    "longer --grace",
		    peer->uri, donor->grace_ms / 1000, donor->config.closed_ms / 1000);
}

void peers_tell_domain(struct far *far, unsigned index)
{
	struct far_peer *peer = &far->peers[index];
	const char *name = peer->session.donor.domain;
	const bool other = strcmp(name, peer->domain) != 0;
	unsigned count;

	leases_donor_named(&far->leases, index, name);
	count = domains_count(&far->leases.domains, far->peer_count);
	if (far->open && other && *peer->domain)
		log_warning("donor %s is in failure domain '%s' now, not '%s': what is there stays", peer->uri, name,
			    peer->domain);
	if (far->open && other && count < far->config.replicas)
		log_warning("%u replicas cannot be kept in %u failure domain%s: some are lacking until donors are "
			    "restarted with another --domain",
			    far->config.replicas, count, count > 1 ? "s" : "");
	pthread_mutex_lock(&far->attach);
	memcpy(peer->domain, name, sizeof peer->domain);
	pthread_mutex_unlock(&far->attach);
}

void peers_tell_replicas(struct far *far, bool whole)
{
	char text[SIZE_TEXT_MAX];
	uint64_t lacking = 0, now = clock_now(), bytes;

	for (uint64_t i = 0; i < far->table.count; i++)
		lacking += chunk_replicas_missing(&far->table, i);
	bytes = lacking * far->table.pages * STORE_PAGE;
	if (!whole) {
		far->lacking_since = now;
		log_warning("rebuild: %" PRIu64 " slabs (%s) lack a replica and are copied to other donors", lacking,
			    size_format(bytes, text));
		return;
	}
	log_warning("rebuild: done, every slab has %u replicas again, after %.3g s", far->config.replicas,
		    (double)(now - far->lacking_since) / 1e9);
}

void peers_tell_leaving(struct far *far)
{
	if (log_again(&far->leaving_told, clock_now(), LEAVING_NS))
		log_warning(
		    "no other donor has room for what one wants back: it is moved to the backup %s, and slow until "
		    "one has",
		    far->backup_path);
}

void peers_tell_kept(struct far *far, uint64_t before)
{
	uint64_t kept = far->integrity.kept;

	if (kept <= before)
		return;
	log_warning("%" PRIu64 " pages are on the backup %s alone, and slow, until donors have room for them", kept,
		    far->backup_path);
	eventfd_write(far->rebuild->wake, 1);
}
