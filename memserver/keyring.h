/*
 * keyring: the keys that clients may prove, and the name of each key.
 *
 * Theory of operation. Each key has a name:
 *
 *   --key FILE         "key"
 *   --admin-key FILE   "admin"
 *   --keys FOLDER      the file name up to the first dot: alice.key, alice.2.key and alice.key.old are alice's
 *
 * All keys of a name are equally valid, so that an operator can replace one key while another still works. A name may
 * have a quota, which its clients share. Where keys are needed, only an admin key carries the right to drain by force.
 *
 * A client does not say which key it proves. The donor always tries all keys, so that the time taken reveals nothing.
 * The limit of KEYRING_MAX keys bounds this time to some ten microseconds.
 *
 * Threads. The functions that read files belong to the thread that starts or reloads the program. The others are pure.
 */
#ifndef MEMSERVER_KEYRING_H
#define MEMSERVER_KEYRING_H

#include "wire/auth.h"

#include <stdbool.h>
#include <stdint.h>

#define KEYRING_MAX 64u
#define KEYRING_NAME_SIZE 32u

struct keyring_key {
	char name[KEYRING_NAME_SIZE]; /* valid for wire_failure_domain_is_valid(), without dots */
	uint8_t key[AUTH_KEY_SIZE];
	bool admin;
	uint64_t quota; /* bytes that the name may lease, or 0 for no limit */
};

/* An all-zero keyring is empty. */
struct keyring {
	struct keyring_key keys[KEYRING_MAX];
	unsigned count, admins;
};

/*
 * Adds the key in one file. Returns 0, or -errno after one logged line: -EEXIST if the key is already there, -E2BIG
 * if the keyring is full, ...
 */
int keyring_add_file(struct keyring *keyring, const char *path, const char *name, bool admin);
/* Adds the keys in the folder of --keys. For each file that is not named like a key, logs one line and skips the file.
   Returns the same as keyring_add_file(). */
int keyring_add_folder(struct keyring *keyring, const char *path);
/*
 * Sets a quota such as "alice=32G". Returns 0, or -EINVAL after one logged line if the text is malformed or no key has
 * the name.
 */
int keyring_set_quota(struct keyring *keyring, const char *text);

/* Returns true if clients need a key. Here and below, NULL is an empty keyring. */
bool keyring_is_needed(const struct keyring *keyring);
/* Returns the key with which the proof @mac was made, or NULL if the keyring does not have it. */
const struct keyring_key *keyring_prove(const struct keyring *keyring, const struct auth_session *session,
					const uint8_t mac[WIRE_MAC_SIZE]);
/* Returns a key of this name, or NULL. */
const struct keyring_key *keyring_find(const struct keyring *keyring, const char *name);
/*
 * Returns the first key of @keyring that had the name @name in @before. The key may have another name now. Returns NULL
 * if no such key is left.
 */
const struct keyring_key *keyring_renamed(const struct keyring *keyring, const struct keyring *before,
					  const char *name);

#endif
