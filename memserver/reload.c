/* donor_reload(): takes over the settings of a donor that may change at run time; see donor.h. */
#include "memserver/donor.h"

#include <string.h>

/* Updates a session's owner, quota and admin right, because the keys may have changed. */
static void session_reload(struct donor *donor, uint32_t session, const struct keyring *before)
{
	const char *owner = donor->book->sessions[session].owner;
	const struct keyring_key *key = keyring_find(donor->config.keys, owner);

	if (!key)
		key = keyring_renamed(donor->config.keys, before, owner);
	if (!key) { /* without a valid key, the session continues until its connection ends */
		donor->sessions[session].admin = false;
		return;
	}
	lease_session_own(donor->book, session, strcmp(key->name, owner) ? key->name : owner,
			  donor_quota_slabs(donor, key->quota));
	donor->sessions[session].admin &= key->admin;
}

void donor_reload(struct donor *donor, const struct donor_config *config, const struct keyring *before)
{
	struct lease_limits *limits = &donor->book->limits;

	donor->config.keys = config->keys;
	limits->session_slabs = config->limits.session_slabs;
	limits->grace_ns = config->limits.grace_ns;
	limits->revoke_ns = config->limits.revoke_ns;
	donor->config.limits.revoke_ns = config->limits.revoke_ns; /* used in log lines */
	for (uint32_t i = 0; i < limits->sessions; i++)
		if (donor->book->sessions[i].state != LEASE_SESSION_FREE)
			session_reload(donor, i, before);
	donor->book->shares++; /* names and quotas may have changed */
}
