/*
 * auth: each proof depends on everything it should, and the kinds of proof differ. Key files are made and read safely.
 */
#include "common/random.h"
#include "tests/lib/folder.h"
#include "wire/auth.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path, *other;

static void file_write(const char *name, const char *text, mode_t mode)
{
	unlink(name);
	text_write(name, text);
	if (chmod(name, mode))
		abort();
}

#define HEX "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"

static void key_files_are_made_private_and_never_overwritten(void)
{
	uint8_t key[AUTH_KEY_SIZE], second[AUTH_KEY_SIZE];
	struct stat stat_before, stat_after;
	mode_t umask_before = umask(0777);

	ok(auth_key_create(path) == 0, "a key file is made");
	umask(umask_before);
	stat(path, &stat_before);
	ok((stat_before.st_mode & 07777) == 0600, "a new key file has mode 0600 whatever the umask");
	ok(stat_before.st_size == 65, "a new key file has the size of 64 digits and a newline");
	ok(auth_key_load(path, key) == 0, "a new key file can be loaded");
	ok(auth_key_create(path) == -EEXIST, "making an existing key file returns -EEXIST");
	stat(path, &stat_after);
	ok(auth_key_load(path, second) == 0 && !memcmp(key, second, sizeof key) &&
	       stat_after.st_ino == stat_before.st_ino,
	   "an existing key file is left unchanged");
	unlink(path);
	ok(auth_key_create(path) == 0 && !auth_key_load(path, second) && memcmp(key, second, sizeof key),
	   "two new keys differ");
	unlink(path);
	ok(!symlink(other, path), "a symbolic link is put in place of the key file");
	ok(auth_key_create(path) == -EEXIST && access(other, F_OK) < 0, "making a key file follows no symbolic link");
	unlink(path);
	ok(auth_key_create("/nonexistent-directory/key") == -ENOENT,
	   "making a key file in a missing directory returns -ENOENT");
}

static void only_valid_private_key_files_are_loaded(void)
{
	uint8_t key[AUTH_KEY_SIZE], expected[AUTH_KEY_SIZE];
	static const char *const not_keys[] = {"",
					       "\n",
					       "00",
					       HEX "\n\n",
					       HEX " ",
					       " " HEX,
					       HEX "0",
					       "g" HEX "\n",
					       "zz112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100\n",
					       "0000000000000000000000000000000000000000000000000000000000000000\n"};

	sodium_hex2bin(expected, sizeof expected, HEX, 64, NULL, NULL, NULL);
	file_write(path, HEX "\n", 0600);
	ok(auth_key_load(path, key) == 0 && !memcmp(key, expected, sizeof key),
	   "a key file with digits of either case is loaded");
	file_write(path, HEX, 0400);
	ok(auth_key_load(path, key) == 0, "a read-only key file without a newline is loaded");
	for (unsigned i = 0; i < sizeof not_keys / sizeof *not_keys; i++) {
		file_write(path, not_keys[i], 0600);
		memset(key, 0x5a, sizeof key);
		ok(auth_key_load(path, key) == -EINVAL && key[0] == 0x5a && key[31] == 0x5a,
		   "malformed key %u is refused, and no key is written", i);
	}
	static const mode_t open_modes[] = {0640, 0604, 0660, 0606, 0610, 0601, 0644};
	for (unsigned i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
		file_write(path, HEX "\n", open_modes[i]);
		ok(auth_key_load(path, key) == -EPERM, "a key file of mode %o is refused", open_modes[i]);
	}
	unlink(path);
	ok(auth_key_load(path, key) == -ENOENT, "loading a missing key file returns -ENOENT");
	ok(auth_key_load(folder(), key) == -EINVAL, "a directory is refused as a key file");
	ok(!mkfifo(path, 0600) && auth_key_load(path, key) == -EINVAL,
	   "a FIFO is refused as a key file without waiting");
	unlink(path);
}

static void proofs_depend_on_each_bit_of_key_and_session(void)
{
	struct auth_session session;
	uint8_t key[AUTH_KEY_SIZE], macs[3][WIRE_MAC_SIZE], again[WIRE_MAC_SIZE], none[WIRE_MAC_SIZE];
	static const uint8_t zero_key[AUTH_KEY_SIZE];

	random_secret(key, sizeof key);
	random_secret(&session, sizeof session);
	auth_client_mac(key, &session, macs[0]);
	auth_donor_mac(key, &session, macs[1]);
	auth_session_key(key, &session, macs[2]);
	auth_client_mac(key, &session, again);
	ok(auth_mac_equal(macs[0], again, WIRE_MAC_SIZE), "the same key and session give the same client's proof");
	ok(!auth_mac_equal(macs[0], macs[1], WIRE_MAC_SIZE) && !auth_mac_equal(macs[0], macs[2], WIRE_MAC_SIZE) &&
	       !auth_mac_equal(macs[1], macs[2], WIRE_MAC_SIZE),
	   "the client's proof, the donor's proof and the session key differ");
	auth_client_mac(NULL, &session, none);
	auth_client_mac(zero_key, &session, again);
	ok(auth_mac_equal(none, again, WIRE_MAC_SIZE) && !auth_mac_equal(none, macs[0], WIRE_MAC_SIZE),
	   "a proof without a key is the proof with the all-zero key");
	unsigned same = 0;
	for (unsigned bit = 0; bit < 8 * sizeof session; bit++) {
		struct auth_session changed = session;

		((uint8_t *)&changed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		auth_client_mac(key, &changed, again);
		same += auth_mac_equal(again, macs[0], WIRE_MAC_SIZE);
	}
	ok(same == 0, "each bit of the client id and the nonces changes the client's proof");
	for (unsigned bit = 0; bit < 8 * sizeof key; bit++) {
		uint8_t changed[AUTH_KEY_SIZE];

		memcpy(changed, key, sizeof key);
		changed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		auth_client_mac(changed, &session, again);
		same += auth_mac_equal(again, macs[0], WIRE_MAC_SIZE);
	}
	ok(same == 0, "each bit of the key changes the client's proof");
}

static void attach_proofs_depend_on_counter_and_id(void)
{
	uint8_t key[AUTH_KEY_SIZE], id[WIRE_ID_SIZE], mac[WIRE_ATTACH_MAC_SIZE], again[WIRE_ATTACH_MAC_SIZE];
	unsigned same = 0;

	random_secret(key, sizeof key);
	random_secret(id, sizeof id);
	auth_attach_mac(key, id, 1, mac);
	auth_attach_mac(key, id, 1, again);
	ok(auth_mac_equal(mac, again, sizeof mac), "the same key, id and counter give the same attach proof");
	for (unsigned bit = 0; bit < 64; bit++) {
		auth_attach_mac(key, id, 1 ^ 1ull << bit, again);
		same += auth_mac_equal(mac, again, sizeof mac);
	}
	ok(same == 0, "each bit of the counter changes the attach proof");
	id[0] ^= 1;
	auth_attach_mac(key, id, 1, again);
	ok(!auth_mac_equal(mac, again, sizeof mac), "the client id changes the attach proof");
}

static void auth_mac_equal_compares_each_bit(void)
{
	uint8_t a[32] = {0}, b[32] = {0};
	unsigned wrong = 0;

	ok(auth_mac_equal(a, b, 32), "auth_mac_equal() returns true for equal bytes");
	for (unsigned bit = 0; bit < 256; bit++) {
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		wrong += auth_mac_equal(a, b, 32);
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ok(wrong == 0, "auth_mac_equal() returns false if any bit differs");
	b[31] = 1;
	ok(auth_mac_equal(a, b, 31), "auth_mac_equal() compares only the given number of bytes");
}

static void *mac_many(void *argument)
{
	static const struct auth_session session;
	uint8_t key[AUTH_KEY_SIZE];

	memset(key, 7, sizeof key);
	for (unsigned i = 0; i < 200; i++)
		auth_donor_mac(key, &session, argument);
	return NULL;
}

/* Runs first in the program, because libsodium must not be initialised yet. */
static void first_proofs_of_several_threads_agree(void)
{
	pthread_t threads[4];
	uint8_t macs[4][WIRE_MAC_SIZE];
	bool same = true;

	for (unsigned i = 0; i < 4; i++) {
		if (pthread_create(&threads[i], NULL, mac_many, macs[i]))
			abort();
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		same = same && !memcmp(macs[i], macs[0], WIRE_MAC_SIZE);
	}
	ok(same, "four threads that make their first proofs at once agree");
}

int main(void)
{
	first_proofs_of_several_threads_agree();
	path = folder_path("key");
	other = folder_path("other");
	key_files_are_made_private_and_never_overwritten();
	only_valid_private_key_files_are_loaded();
	proofs_depend_on_each_bit_of_key_and_session();
	attach_proofs_depend_on_counter_and_id();
	auth_mac_equal_compares_each_bit();
	return tap_done();
}
