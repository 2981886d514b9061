/* wire: a hello and a reject decode to what was sent, and every wrong byte is refused. */
#include "tests/lib/tap.h"
#include "tests/unit/wire/bytes.h"
#include "wire/wire.h"

#include <errno.h>

static struct random_state randomness;

static struct wire_hello random_hello(unsigned role)
{
	struct wire_hello hello;

	memset(&hello, 0, sizeof hello);
	hello.version = WIRE_VERSION;
	hello.role = (uint8_t)role;
	random_bytes(&randomness, hello.id, sizeof hello.id);
	if (role == WIRE_SESSION) {
		random_bytes(&randomness, hello.nonce, sizeof hello.nonce);
	} else {
		random_bytes(&randomness, hello.mac, sizeof hello.mac);
		hello.counter = random_next(&randomness);
	}
	return hello;
}

static bool hello_refused(const uint8_t *bytes, size_t size)
{
	struct wire_hello hello;

	memset(&hello, 0x5a, sizeof hello);
	return wire_decode_hello(bytes, size, &hello) == -EPROTO && is_untouched(&hello, sizeof hello);
}

static void a_hello_decodes_only_as_it_was_sent(unsigned role)
{
	struct wire_hello sent = random_hello(role), came;
	uint8_t bytes[WIRE_HELLO_SIZE + 1] = {0}, again[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&sent, bytes);

	memset(&came, 0, sizeof came);
	ok(size == WIRE_HELLO_SIZE && !wire_decode_hello(bytes, size, &came) && came.version == sent.version &&
	       came.role == sent.role && came.counter == sent.counter && !memcmp(came.id, sent.id, sizeof sent.id) &&
	       !memcmp(came.nonce, sent.nonce, sizeof sent.nonce) && !memcmp(came.mac, sent.mac, sizeof sent.mac),
	   "a hello of role %u decodes to what was sent", role);
	unsigned wrong = 0;
	for (size_t other = 0; other <= sizeof bytes; other++)
		wrong += other != size && !hello_refused(bytes, other);
	ok(wrong == 0, "a hello of role %u is refused at any other size", role);
	for (unsigned bit = 0; bit < 8 * size; bit++) {
		unsigned at = bit / 8, padding_at = role == WIRE_SESSION ? 40 : 48;

		bytes[at] ^= (uint8_t)(1 << bit % 8);
		int error = wire_decode_hello(bytes, size, &came);
		if (at == 4 || at == 5) /* version */
			wrong += error != -EPROTONOSUPPORT;
		else if (at < 8 || at >= padding_at) /* magic, reserved bytes, role (two bits tell roles apart) */
			wrong += error != -EPROTO;
		else
			wrong += error || wire_encode_hello(&came, again) != size || memcmp(bytes, again, size);
		bytes[at] ^= (uint8_t)(1 << bit % 8);
	}
	ok(wrong == 0, "every flipped bit of a hello of role %u is refused or decoded", role);
}

static void a_hello_of_another_version_is_told_apart(void)
{
	struct wire_hello hello = random_hello(WIRE_SESSION), came;
	uint8_t bytes[WIRE_HELLO_SIZE];

	hello.version = WIRE_VERSION + 1;
	wire_encode_hello(&hello, bytes);
	memset(&came, 0x5a, sizeof came);
	ok(wire_decode_hello(bytes, sizeof bytes, &came) == -EPROTONOSUPPORT && came.version == WIRE_VERSION + 1,
	   "a hello of another version is refused, and its version is returned");
	came.version = 0x5a5a;
	ok(is_untouched(&came, sizeof came), "a hello of another version writes only its version");
	memset(bytes + 8, 0xff, sizeof bytes - 8);
	ok(wire_decode_hello(bytes, 20, &came) == -EPROTONOSUPPORT,
	   "a hello of another version is told apart whatever its size and contents");
	bytes[0] ^= 1;
	ok(hello_refused(bytes, sizeof bytes), "a hello of another version without the magic is refused");
	ok(hello_refused((const uint8_t *)"GET / HTTP/1.1\r\nHost: donor.example.org\r\nAccept: */*\r\n\r\n", 56),
	   "an HTTP request is refused as a hello");
}

static void a_reject_decodes_only_with_a_known_reason(void)
{
	unsigned wrong = 0;

	for (unsigned reason = 0; reason <= UINT16_MAX; reason++) {
		struct wire_reject sent = {(uint16_t)reason, (uint16_t)(reason * 7)}, came = {9999, 9999};
		uint8_t bytes[WIRE_REJECT_SIZE];
		size_t size = wire_encode_reject(&sent, bytes);
		int error = wire_decode_reject(bytes, size, &came);

		if (reason < WIRE_REASON_COUNT)
			wrong += error || came.reason != sent.reason || came.detail != sent.detail;
		else
			wrong += error != -EPROTO || came.reason != 9999;
	}
	ok(wrong == 0, "a reject decodes with every known reason and with no other");
	struct wire_reject reject = {WIRE_REASON_VERSION, 2};
	uint8_t bytes[WIRE_REJECT_SIZE + 1] = {0};
	wire_encode_reject(&reject, bytes);
	for (size_t size = 0; size <= sizeof bytes; size++)
		wrong += size != WIRE_REJECT_SIZE && wire_decode_reject(bytes, size, &reject) != -EPROTO;
	for (unsigned bit = 0; bit < 32; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		wrong += wire_decode_reject(bytes, WIRE_REJECT_SIZE, &reject) != -EPROTO;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ok(wrong == 0, "a reject of any other size or magic is refused");
}

int main(void)
{
	random_seed(&randomness, 21);
	a_hello_decodes_only_as_it_was_sent(WIRE_SESSION);
	a_hello_decodes_only_as_it_was_sent(WIRE_ATTACH);
	a_hello_of_another_version_is_told_apart();
	a_reject_decodes_only_with_a_known_reason();
	return tap_done();
}
