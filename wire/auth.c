/*
 * auth: see auth.h.
 *
 * Theory of operation. Every MAC is a keyed BLAKE2b hash (libsodium's crypto_generichash) of a label and the inputs.
 * Each purpose has a label of its own. All labels have the same length, so inputs for different purposes never have
 * the same bytes. For example, client and donor have different labels, so a false donor cannot answer a client with
 * the client's own proof. Secrets on the stack are cleared after use.
 *
 * Threads: any.
 */
#include "wire/auth.h"

#include "common/format.h"
#include "common/log.h"
#include "common/random.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTH_LABEL_SIZE 16
static const char label_client[AUTH_LABEL_SIZE] = "farpage1 client";
static const char label_donor[AUTH_LABEL_SIZE] = "farpage1 donor";
static const char label_session[AUTH_LABEL_SIZE] = "farpage1 session";
static const char label_attach[AUTH_LABEL_SIZE] = "farpage1 attach";
static const char label_asks[AUTH_LABEL_SIZE] = "farpage1 asks";
static const char label_says[AUTH_LABEL_SIZE] = "farpage1 says";

#define KEY_HEX_SIZE (2 * AUTH_KEY_SIZE)

static_assert(AUTH_KEY_SIZE >= crypto_generichash_KEYBYTES_MIN && AUTH_KEY_SIZE <= crypto_generichash_KEYBYTES_MAX,
	      "a key BLAKE2b takes");
static_assert(WIRE_ATTACH_MAC_SIZE >= crypto_generichash_BYTES_MIN && WIRE_SEAL_SIZE >= crypto_generichash_BYTES_MIN &&
		  WIRE_MAC_SIZE <= crypto_generichash_BYTES_MAX,
	      "sizes BLAKE2b gives");

/* Writes all bytes. After a short write (the disk is full), the next write returns the error. */
static int auth_write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t written = write(fd, bytes, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		bytes += written;
		size -= (size_t)written;
	}
	return 0;
}

/* Syncs the directory of @path, so that the new file survives a crash. */
static int auth_sync_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");

	if (!directory)
		return -ENOMEM;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(directory);
	if (fd < 0)
		/* The directory is writable but not readable, so it cannot be synced. */
		return errno == EACCES ? 0 : -errno;
	int error = fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
	close(fd);
	return error;
}

int auth_key_create(const char *path)
{
	uint8_t key[AUTH_KEY_SIZE];
	char text[KEY_HEX_SIZE + 1]; /* the newline replaces the terminating zero */
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);

	if (fd < 0)
		return -errno;
	random_secret(key, sizeof key);
	sodium_bin2hex(text, sizeof text, key, sizeof key);
	text[KEY_HEX_SIZE] = '\n';
	int error = fchmod(fd, S_IRUSR | S_IWUSR) < 0 ? -errno : 0; /* the umask may have removed bits of the mode */
	if (!error)
		error = auth_write_all(fd, text, sizeof text);
	if (!error && fsync(fd) < 0)
		error = -errno;
	if (close(fd) < 0 && !error)
		error = -errno;
	if (!error)
		error = auth_sync_directory(path);
	if (error)
		unlink(path); /* an incomplete key file must not remain */
	sodium_memzero(key, sizeof key);
	sodium_memzero(text, sizeof text);
	return error;
}

/* Reads up to @size bytes or to the end of the file. Returns the number of bytes, or -errno. */
static ssize_t auth_read_all(int fd, char *bytes, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t got = read(fd, bytes + have, size - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		have += (size_t)got;
	}
	return (ssize_t)have;
}

/* Decodes a key. Rejects the all-zero key, because it stands for "no key", and would protect nothing. */
static int auth_key_decode(const char *text, size_t size, uint8_t ret_key[AUTH_KEY_SIZE])
{
	uint8_t key[AUTH_KEY_SIZE];
	size_t key_size;
	bool good = (size == KEY_HEX_SIZE || (size == KEY_HEX_SIZE + 1 && text[KEY_HEX_SIZE] == '\n')) &&
		    sodium_hex2bin(key, sizeof key, text, KEY_HEX_SIZE, NULL, &key_size, NULL) == 0 &&
		    key_size == AUTH_KEY_SIZE && !sodium_is_zero(key, sizeof key);

	if (good)
		memcpy(ret_key, key, sizeof key);
	sodium_memzero(key, sizeof key);
	return good ? 0 : -EINVAL;
}

int auth_key_load(const char *path, uint8_t ret_key[AUTH_KEY_SIZE])
{
	/* With O_NONBLOCK, open() does not wait for a writer if @path is a FIFO. S_ISREG() then rejects it. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	struct stat stat;
	char text[KEY_HEX_SIZE + 2]; /* one byte more than a key file has, to detect a longer file */
	int error = 0;
	if (fstat(fd, &stat) < 0)
		error = -errno;
	else if (!S_ISREG(stat.st_mode))
		error = -EINVAL;
	else if (stat.st_mode & (S_IRWXG | S_IRWXO))
		error = -EPERM;
	if (!error) {
		ssize_t size = auth_read_all(fd, text, sizeof text);

		error = size < 0 ? (int)size : auth_key_decode(text, (size_t)size, ret_key);
		sodium_memzero(text, sizeof text);
	}
	close(fd);
	return error;
}

int auth_key_load_or_tell(const char *path, uint8_t ret_key[AUTH_KEY_SIZE])
{
	int error = auth_key_load(path, ret_key);

	if (error == -EPERM)
		log_error("key file %s: others than its owner may read it; run: chmod 600 %s", path, path);
	else if (error == -EINVAL)
		log_error("%s is not a key file (64 hexadecimal digits); make one with: farpage key FILE", path);
	else if (error == -ENOENT)
		log_error("cannot read key file %s: no such file; make one with: farpage key %s", path, path);
	else if (error)
		log_error("cannot read key file %s: %s; give one that user %u may read", path, format_errno(error),
			  (unsigned)geteuid());
	return error;
}

static void auth_mac(const uint8_t *key, const void *input, size_t input_size, uint8_t *mac, size_t mac_size)
{
	static const uint8_t no_key[AUTH_KEY_SIZE];

	if (sodium_init() < 0 ||
	    crypto_generichash(mac, mac_size, input, input_size, key ? key : no_key, AUTH_KEY_SIZE))
		abort(); /* never seen; without proofs it would be unsafe to continue */
}

static void auth_session_mac(const uint8_t *key, const char label[AUTH_LABEL_SIZE], const struct auth_session *session,
			     uint8_t mac[WIRE_MAC_SIZE])
{
	struct {
		char label[AUTH_LABEL_SIZE];
		uint8_t client_id[WIRE_ID_SIZE], client_nonce[WIRE_NONCE_SIZE], donor_nonce[WIRE_NONCE_SIZE];
	} input;
	static_assert(sizeof input == AUTH_LABEL_SIZE + WIRE_ID_SIZE + 2 * WIRE_NONCE_SIZE, "no padding");
	memcpy(input.label, label, sizeof input.label);
	memcpy(input.client_id, session->client_id, sizeof input.client_id);
	memcpy(input.client_nonce, session->client_nonce, sizeof input.client_nonce);
	memcpy(input.donor_nonce, session->donor_nonce, sizeof input.donor_nonce);
	auth_mac(key, &input, sizeof input, mac, WIRE_MAC_SIZE);
}

void auth_client_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE])
{
	auth_session_mac(key, label_client, session, mac);
}

void auth_donor_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE])
{
	auth_session_mac(key, label_donor, session, mac);
}

void auth_session_key(const uint8_t *key, const struct auth_session *session, uint8_t session_key[AUTH_KEY_SIZE])
{
	static_assert(AUTH_KEY_SIZE == WIRE_MAC_SIZE, "a MAC is a key");
	auth_session_mac(key, label_session, session, session_key);
}

void auth_attach_mac(const uint8_t session_key[AUTH_KEY_SIZE], const uint8_t client_id[WIRE_ID_SIZE], uint64_t counter,
		     uint8_t mac[WIRE_ATTACH_MAC_SIZE])
{
	uint8_t input[AUTH_LABEL_SIZE + WIRE_ID_SIZE + sizeof counter];

	memcpy(input, label_attach, AUTH_LABEL_SIZE);
	memcpy(input + AUTH_LABEL_SIZE, client_id, WIRE_ID_SIZE);
	for (unsigned i = 0; i < sizeof counter; i++)
		input[AUTH_LABEL_SIZE + WIRE_ID_SIZE + i] = (uint8_t)(counter >> (8 * i));
	auth_mac(session_key, input, sizeof input, mac, WIRE_ATTACH_MAC_SIZE);
}

void auth_message_mac(const uint8_t session_key[AUTH_KEY_SIZE], bool client, uint64_t counter, const void *message,
		      size_t size, uint8_t mac[WIRE_SEAL_SIZE])
{
	uint8_t input[AUTH_LABEL_SIZE + sizeof counter + WIRE_MESSAGE_MAX];

	assert(size <= WIRE_MESSAGE_MAX);
	memcpy(input, client ? label_asks : label_says, AUTH_LABEL_SIZE);
	for (unsigned i = 0; i < sizeof counter; i++)
		input[AUTH_LABEL_SIZE + i] = (uint8_t)(counter >> (8 * i));
	memcpy(input + AUTH_LABEL_SIZE + sizeof counter, message, size);
	auth_mac(session_key, input, AUTH_LABEL_SIZE + sizeof counter + size, mac, WIRE_SEAL_SIZE);
}

bool auth_mac_equal(const uint8_t *a, const uint8_t *b, uint32_t size)
{
	return sodium_memcmp(a, b, size) == 0;
}
