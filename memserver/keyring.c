/* keyring: see keyring.h. */
#include "memserver/keyring.h"

#include "common/log.h"
#include "common/size.h"
#include "wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_SUFFIX ".key"
#define OLD_SUFFIX ".key.old"

/* --- Reading --------------------------------------------------------------------------------------------- */

int keyring_add_file(struct keyring *keyring, const char *path, const char *name, bool admin)
{
	struct keyring_key *added = &keyring->keys[keyring->count];
	int status;

	if (keyring->count == KEYRING_MAX) {
		log_error("%s: there are more than %u keys; remove those that nobody uses", path, KEYRING_MAX);
		return -E2BIG;
	}
	*added = (struct keyring_key){.admin = admin};
	status = auth_key_load_or_tell(path, added->key);
	if (status < 0)
		return status;
	for (unsigned i = 0; i < keyring->count; i++) {
		if (!auth_mac_equal(keyring->keys[i].key, added->key, AUTH_KEY_SIZE))
			continue;
		log_error("%s is a key of '%s' already; make another with: farpage key FILE", path,
			  keyring->keys[i].name);
		return -EEXIST;
	}
	snprintf(added->name, sizeof added->name, "%s", name);
	keyring->count++;
	keyring->admins += admin;
	return 0;
}

static bool ends_with(const char *text, const char *suffix)
{
	size_t length = strlen(text), end = strlen(suffix);

	return length > end && strcmp(text + length - end, suffix) == 0;
}

/* Writes the name of the key in the file @file. Returns false if @file is not a name for a key file. */
static bool name_of_file(const char *file, char name[KEYRING_NAME_SIZE])
{
	size_t length = strcspn(file, ".");

	if ((!ends_with(file, KEY_SUFFIX) && !ends_with(file, OLD_SUFFIX)) || length >= KEYRING_NAME_SIZE)
		return false;
	memcpy(name, file, length);
	name[length] = '\0';
	return wire_failure_domain_is_valid(name);
}

static int folder_entry(struct keyring *keyring, const char *folder, const char *file)
{
	char path[PATH_MAX], name[KEYRING_NAME_SIZE];

	if (file[0] == '.')
		return 0;
	if (!name_of_file(file, name)) {
		log_warning("%s/%s is ignored: a key file is called NAME.key", folder, file);
		return 0;
	}
	if (strcmp(name, "admin") == 0) {
		log_error("%s/%s: no client is called admin; give the file with --admin-key, or another name", folder,
			  file);
		return -EINVAL;
	}
	if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) {
		log_error("%s/%s: the path is too long; move the keys to a folder with a shorter one", folder, file);
		return -ENAMETOOLONG;
	}
	return keyring_add_file(keyring, path, name, false);
}

int keyring_add_folder(struct keyring *keyring, const char *path)
{
	const unsigned before = keyring->count;
	struct dirent **entries;
	struct stat stat_;
	int count = scandir(path, &entries, NULL, alphasort), status = 0;

	if (count < 0) {
		status = -errno;
		log_error("cannot read the folder of keys %s: %s; give a folder with files NAME.key", path,
			  strerror(-status));
		return status;
	}
	if (stat(path, &stat_) == 0 && stat_.st_mode & (S_IWGRP | S_IWOTH)) {
		log_error("folder of keys %s: others than its owner may write to it; run: chmod go-w %s", path, path);
		status = -EPERM;
	}
	for (int i = 0; i < count; i++) {
		if (!status)
			status = folder_entry(keyring, path, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	if (!status && keyring->count == before) {
		log_error("folder of keys %s: there is no key in it; make one with: farpage key %s/NAME.key", path,
			  path);
		status = -ENOENT;
	}
	return status;
}

int keyring_set_quota(struct keyring *keyring, const char *text)
{
	size_t length = strcspn(text, "=");
	unsigned found = 0;
	uint64_t bytes;

	if (!text[length] || size_parse(text + length + 1, &bytes) < 0 || !bytes) {
		log_error("--client-quota '%.64s': write it like alice=32G", text);
		return -EINVAL;
	}
	for (unsigned i = 0; i < keyring->count; i++) {
		struct keyring_key *key = &keyring->keys[i];

		if (strlen(key->name) != length || strncmp(key->name, text, length) != 0)
			continue;
		key->quota = bytes;
		found++;
	}
	if (found)
		return 0;
	log_error("--client-quota '%.64s': no key has that name; it is the beginning of the file's, up to the first "
		  "dot ('key' for --key)",
		  text);
	return -EINVAL;
}

/* --- Using ----------------------------------------------------------------------------------------------- */

bool keyring_is_needed(const struct keyring *keyring)
{
	return keyring && keyring->count;
}

const struct keyring_key *keyring_prove(const struct keyring *keyring, const struct auth_session *session,
					const uint8_t mac[WIRE_MAC_SIZE])
{
	const struct keyring_key *proved = NULL;
	uint8_t good[WIRE_MAC_SIZE];

	for (unsigned i = 0; keyring && i < keyring->count; i++) {
		auth_client_mac(keyring->keys[i].key, session, good);
		if (auth_mac_equal(good, mac, WIRE_MAC_SIZE))
			proved = &keyring->keys[i];
	}
	return proved;
}

const struct keyring_key *keyring_find(const struct keyring *keyring, const char *name)
{
	for (unsigned i = 0; keyring && i < keyring->count; i++)
		if (strcmp(keyring->keys[i].name, name) == 0)
			return &keyring->keys[i];
	return NULL;
}

const struct keyring_key *keyring_renamed(const struct keyring *keyring, const struct keyring *before, const char *name)
{
	for (unsigned i = 0; before && i < before->count; i++) {
		if (strcmp(before->keys[i].name, name) != 0)
			continue;
		for (unsigned j = 0; keyring && j < keyring->count; j++)
			if (auth_mac_equal(keyring->keys[j].key, before->keys[i].key, AUTH_KEY_SIZE))
				return &keyring->keys[j];
	}
	return NULL;
}
