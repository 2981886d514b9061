/* channel: only what the other side said next is taken. */
#include "common/channel.h"
#include "tests/tap.h"

#include <errno.h>
#include <string.h>

static const uint8_t key[AUTH_KEY_SIZE] = {1, 2, 3}, other_key[AUTH_KEY_SIZE] = {4};
static struct channel client, donor;

static void begin(void)
{
	channel_begin(&client, key, true);
	channel_begin(&donor, key, false);
}

static size_t say(struct channel *channel, const char *text, uint8_t bytes[WIRE_SEALED_MAX])
{
	memcpy(bytes, text, strlen(text));
	return channel_seal(channel, bytes, strlen(text));
}

static void test_talk(void)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	unsigned right = 0;

	begin();
	for (unsigned i = 0; i < 100; i++) {
		size_t size = say(&client, "lease", bytes);

		right += size == 5 + WIRE_SEAL_SIZE && channel_open(&donor, bytes, size) == 5;
		right += channel_open(&client, bytes, say(&donor, "granted", bytes)) == 7;
	}
	ok(right == 200, "each side takes what the other says");
	memset(bytes, 7, sizeof bytes);
	ok(channel_open(&donor, bytes, channel_seal(&client, bytes, WIRE_MESSAGE_MAX)) == WIRE_MESSAGE_MAX,
	   "also the longest");
	ok(channel_open(&donor, bytes, channel_seal(&client, bytes, 0)) == 0, "and the shortest");
}

/* Whether the donor refuses it, and still takes what comes next. */
static bool refused(const uint8_t *bytes, size_t size)
{
	uint8_t next[WIRE_SEALED_MAX];
	struct channel before = client;
	bool good = channel_open(&donor, bytes, size) == -EBADMSG;

	good = good && channel_open(&donor, next, say(&client, "next", next)) == 4;
	donor.heard = client.said = before.said;
	return good;
}

static void test_tampering(void)
{
	uint8_t bytes[WIRE_SEALED_MAX], changed[WIRE_SEALED_MAX], later[WIRE_SEALED_MAX];
	size_t size, more;
	unsigned wrong = 0;

	begin();
	size = say(&client, "release", bytes);
	client.said--;
	for (size_t i = 0; i < 8 * size; i++) {
		memcpy(changed, bytes, size);
		changed[i / 8] ^= (uint8_t)(1 << i % 8);
		wrong += !refused(changed, size);
	}
	ok(!wrong, "a message with any bit changed is refused, and changes nothing");
	for (size_t i = 0; i < size; i++)
		wrong += !refused(bytes, i);
	memcpy(changed, bytes, size);
	changed[size] = 0;
	ok(!wrong && refused(changed, size + 1), "one that is cut, or longer");
	client.said++;
	more = say(&client, "bye", later);
	client.said -= 2;
	ok(refused(later, more), "one before which another is left out");
	client.said++;
	ok(channel_open(&donor, bytes, size) == 7, "that one is taken");
	ok(refused(bytes, size), "but not twice");
	client.said++;
	ok(channel_open(&donor, later, more) == 3, "then the other");
}

static void test_others(void)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	struct channel stranger;
	size_t size;

	begin();
	channel_begin(&stranger, other_key, true);
	ok(channel_open(&donor, bytes, say(&stranger, "bye", bytes)) == -EBADMSG, "a stranger's is refused");
	size = say(&client, "ping", bytes);
	ok(channel_open(&client, bytes, size) == -EBADMSG, "and what is sent back to who said it");
	ok(channel_open(&donor, bytes, size) == 4, "the other side takes it");
	ok(channel_open(&donor, bytes, 0) == -EBADMSG && channel_open(&donor, bytes, sizeof bytes + 1) == -EBADMSG,
	   "nothing, or too much, is refused");
	stranger.begun = false;
	size = say(&stranger, "hello", bytes);
	ok(size == 5 && channel_open(&stranger, bytes, size) == 5, "before there is a key all is as it is");
}

int main(void)
{
	test_talk();
	test_tampering();
	test_others();
	return tap_done();
}
