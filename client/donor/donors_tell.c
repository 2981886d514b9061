/* donors_tell: see donors_tell.h. */
#include "client/donor/donors_tell.h"

#include "common/clock.h"
#include "common/events.h"
#include "common/format.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Log lines about chunks that leave for the backup are at least this far apart. */
#define LEAVING_NS UINT64_C(60000000000)

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
	case -ERESTART:
		return "it is being upgraded";
	case -EPROTO:
		return "it broke the protocol";
	case -EACCES:
		return "it refused a request";
	default:
		return format_errno(status);
	}
}

void donors_tell_broke(const struct far_donor *donor)
{
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.donor = donor->uri), "donor %s does not answer (%s)", donor->uri,
		  death_name(donor->comeback.status));
}

void donors_tell_away(const struct far *far, struct far_donor *donor)
{
	if (donor->told)
		return;
	donor->told = true;
	log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DONOR_AWAY, .donor = donor->uri),
		  "donor %s does not answer (%s): trying to reach it again for %.3g s", donor->uri,
		  death_name(donor->comeback.status), far->config.timeout_ms / 1e3);
}

void donors_tell_needed(const struct far *far, const struct far_donor *donor)
{
	log_warning("no donor in reach has what donor %s has: trying to reach it for %.3g s", donor->uri,
		    far->config.last_timeout_ms / 1e3);
}

void donors_tell_not_added(struct far_donor *donor)
{
	char text[DONOR_EXPLAIN_MAX];

	if (donor->added && donor->session.donor.state == DONOR_LOST)
		log_warning("donor %s, which was added, %s", donor->uri, donor_explain(&donor->session.donor, text));
	donor->added = false;
}

void donors_tell_back(const struct far_donor *donor)
{
	uint64_t away = clock_now() - donor->away_at;
	double seconds = (double)away / 1e9;

	if (donor->adopted && donor->comeback.anew && donor->comeback.status == -ENOTCONN)
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.donor = donor->uri),
			  "donor %s is added: it is used from now on", donor->uri);
	else if (donor->comeback.anew)
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DONOR_BACK, .donor = donor->uri),
			  "donor %s is back, with none of our pages: it is used again", donor->uri);
	else if (donor->told || (!donor->adopted && away >= DONORS_TELL_NS))
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DONOR_BACK, .donor = donor->uri),
			  "donor %s answers again, after %.3g s", donor->uri, seconds);
	else if (donor->adopted)
		log_info("donor %s has %" PRIu64 " slabs of the store adopted", donor->uri, donor->claims.held);
	else
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.donor = donor->uri), "donor %s answers again, after %.3g s",
			  donor->uri, seconds);
}

void donors_tell_lost(const struct far *far, unsigned index)
{
	const struct far_donor *donor = &far->donors[index];
	const struct donor *machine = &donor->session.donor;
	const char *fate = far->backup_path ? "pages that only it held are on the backup" : "what it held is lost";
	char text[DONOR_EXPLAIN_MAX];
	const char *why = machine->reason ? wire_reason_name(machine->reason) : death_name(donor->comeback.status);
	const bool only = !far->backup_path && leases_donor_has_only(&far->leases, index);
	const struct log_fields fields = {.id = only ? EVENT_DATA_LOST : EVENT_DONOR_LOST, .donor = donor->uri};

	/* While an adoption may still fail, no page is lost yet. */
	if (far->adopting && donor->comeback.end == COMEBACK_REFUSED) {
		log_error("donor %s %s", donor->uri, donor_explain(machine, text));
		return;
	}
	if (far->adopting && donor->comeback.end == COMEBACK_TOO_LATE) {
		log_error("donor %s does not answer (%s): its pages cannot be adopted", donor->uri, why);
		return;
	}
	switch (donor->comeback.end) {
	case COMEBACK_RESTARTED:
		log_event(LOG_LEVEL_ERROR, &fields, "donor %s has restarted: %s", donor->uri, fate);
		return;
	case COMEBACK_FORGOTTEN:
		log_event(LOG_LEVEL_ERROR, &fields, "donor %s is back, but no longer has our pages: %s", donor->uri,
			  far->backup_path ? fate : "they are lost");
		return;
	case COMEBACK_LIVES:
	case COMEBACK_TOO_LATE:
	case COMEBACK_REFUSED:
		log_event(LOG_LEVEL_ERROR, &fields, "donor %s is gone (%s): %s", donor->uri, why, fate);
	}
}

void donors_tell_grace(const struct far *far, const struct far_donor *donor)
{
	const struct donor *machine = &donor->session.donor;
	const uint32_t patience_ms = far->config.last_timeout_ms;

	if (machine->grace_ms < patience_ms)
		log_info("donor %s keeps pages for %u s when it hears nothing of this process, which waits for it for "
			 "%u s: restart it with a longer --grace",
			 donor->uri, machine->grace_ms / 1000, patience_ms / 1000);
	if (far->state && machine->grace_ms < machine->config.closed_ms)
		log_warning(
		    "donor %s keeps pages for %u s when this process has ended, instead of %u s: restart it with a "
		    "longer --grace",
		    donor->uri, machine->grace_ms / 1000, machine->config.closed_ms / 1000);
}

void donors_tell_failure_domain(struct far *far, unsigned index)
{
	struct far_donor *donor = &far->donors[index];
	const char *name = donor->session.donor.failure_domain;
	const bool other = strcmp(name, donor->failure_domain) != 0;
	unsigned count;

	leases_donor_named(&far->leases, index, name);
	count = failure_domains_count(&far->leases.failure_domains, far->donor_count);
	if (far->open && other && *donor->failure_domain)
		log_warning("donor %s is in failure domain '%s' now, not '%s': its pages stay there", donor->uri, name,
			    donor->failure_domain);
	if (far->open && other && count < far->config.replicas)
		log_warning("%u replicas cannot be kept in %u failure domain%s: some are lacking until donors are "
			    "restarted with another --domain",
			    far->config.replicas, count, count > 1 ? "s" : "");
	pthread_mutex_lock(&far->attach);
	memcpy(donor->failure_domain, name, sizeof donor->failure_domain);
	pthread_mutex_unlock(&far->attach);
}

void donors_tell_replicas(struct far *far, bool whole)
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

void donors_tell_leaving(struct far *far)
{
	if (log_again(&far->leaving_told, clock_now(), LEAVING_NS))
		log_warning("no other donor has room for recalled pages: they move to the backup %s, and are slow "
			    "until a donor has room",
			    far->backup_path);
}

void donors_tell_kept(struct far *far, uint64_t before)
{
	uint64_t kept = far->integrity.kept;

	if (kept <= before)
		return;
	log_warning("%" PRIu64 " pages are on the backup %s alone, and slow, until donors have room for them", kept,
		    far->backup_path);
	mailbox_wake_rebuild(&far->mailbox);
}
