/*
 * keyring: the keys that clients may prove themselves with, and whose they are.
 *
 * Theory of operation. A key belongs to a name: "key" for those of --key, "admin" for those of --admin-key, and the
 * beginning of the file's name, up to the first dot, for those in the folder of --keys (alice.key, alice.2.key and
 * alice.key.old are all alice's). All keys of a name are as good as each other, so that one can be replaced while the
 * other still counts. A name may have a quota, for all its clients together. The admin keys alone carry the right to
 * drain by force.
 *
 * A client does not say which key it proves: each is tried, and all of them always, so that the time it takes tells
 * nothing. There are KEYRING_MAX at most, which costs some ten microseconds.
 *
 * Threads: reading files is for who starts or reloads; the rest is pure.
 */
#ifndef MEMSERVER_KEYRING_H
#define MEMSERVER_KEYRING_H

#include "common/auth.h"

#include <stdbool.h>
#include <stdint.h>

#define KEYRING_MAX 64u
#define KEYRING_NAME_SIZE 32u

struct keyring_key {
	char name[KEYRING_NAME_SIZE]; /* good: wire_domain_is_good(), without dots */
	uint8_t key[AUTH_KEY_SIZE];
	bool admin;
	uint64_t quota; /* bytes that the name may lease; 0: no limit of its own */
};

/* All zero: empty. */
struct keyring {
	struct keyring_key keys[KEYRING_MAX];
	unsigned count, admins;
};

/* Reads one key file. -errno after one logged line, also for a key that is there already, and for one too many. */
int keyring_add_file(struct keyring *keyring, const char *path, const char *name, bool admin);
/* The same for the folder of --keys. A file whose name is no key's is passed over with one logged line. */
int keyring_add_folder(struct keyring *keyring, const char *path);
/* "alice=32G". -EINVAL after one logged line: malformed, or nobody has that name. */
int keyring_set_quota(struct keyring *keyring, const char *text);

/* Returns true if clients need a key. @keyring, here and below: NULL is an empty one. */
bool keyring_is_needed(const struct keyring *keyring);
/* Returns the key that the proof @mac was made with, or NULL: none of these. */
const struct keyring_key *keyring_prove(const struct keyring *keyring, const struct auth_session *session,
					const uint8_t mac[WIRE_MAC_SIZE]);
/* Returns a key of this name, or NULL. */
const struct keyring_key *keyring_find(const struct keyring *keyring, const char *name);
/* Returns the first key of @keyring that is also one of @name in @before, or NULL: the name may have changed. */
const struct keyring_key *keyring_renamed(const struct keyring *keyring, const struct keyring *before,
					  const char *name);

#endif
