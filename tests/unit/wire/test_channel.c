/* channel: a side accepts only the next message of the other side. */
#include "tests/lib/tap.h"
#include "wire/channel.h"

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

static void each_side_opens_what_the_other_seals(void)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	unsigned right = 0;

	begin();
	for (unsigned i = 0; i < 100; i++) {
		size_t size = say(&client, "lease", bytes);

		right += size == 5 + WIRE_SEAL_SIZE && channel_open(&donor, bytes, size) == 5;
		right += channel_open(&client, bytes, say(&donor, "granted", bytes)) == 7;
	}
	ok(right == 200, "each side opens what the other seals, 100 messages each way");
	memset(bytes, 7, sizeof bytes);
	ok(channel_open(&donor, bytes, channel_seal(&client, bytes, WIRE_MESSAGE_MAX)) == WIRE_MESSAGE_MAX,
	   "the longest message is opened");
	ok(channel_open(&donor, bytes, channel_seal(&client, bytes, 0)) == 0, "an empty message is opened");
}

/* Returns true if the donor refuses the message and still accepts the next one. */
static bool refused(const uint8_t *bytes, size_t size)
{
	uint8_t next[WIRE_SEALED_MAX];
	struct channel before = client;
	bool good = channel_open(&donor, bytes, size) == -EBADMSG;

	good = good && channel_open(&donor, next, say(&client, "next", next)) == 4;
	donor.heard = client.said = before.said;
	return good;
}

static void changed_missing_and_repeated_messages_are_refused(void)
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
	ok(!wrong, "a message with any bit flipped is refused, and the next one is opened");
	for (size_t i = 0; i < size; i++)
		wrong += !refused(bytes, i);
	memcpy(changed, bytes, size);
	changed[size] = 0;
	ok(!wrong && refused(changed, size + 1), "a message that is cut or extended is refused");
	client.said++;
	more = say(&client, "bye", later);
	client.said -= 2;
	ok(refused(later, more), "a message whose predecessor was left out is refused");
	client.said++;
	ok(channel_open(&donor, bytes, size) == 7, "the predecessor of a refused message is opened");
	ok(refused(bytes, size), "a message is refused the second time");
	client.said++;
	ok(channel_open(&donor, later, more) == 3, "a message that came too early is opened after its predecessor");
}

static void messages_of_strangers_and_own_messages_are_refused(void)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	struct channel stranger;
	size_t size;

	begin();
	channel_begin(&stranger, other_key, true);
	ok(channel_open(&donor, bytes, say(&stranger, "bye", bytes)) == -EBADMSG,
	   "a message under another key is refused");
	size = say(&client, "ping", bytes);
	ok(channel_open(&client, bytes, size) == -EBADMSG, "a message that is sent back to its sender is refused");
	ok(channel_open(&donor, bytes, size) == 4, "a message that its sender refused is opened by the other side");
	ok(channel_open(&donor, bytes, 0) == -EBADMSG && channel_open(&donor, bytes, sizeof bytes + 1) == -EBADMSG,
	   "a message of 0 bytes or beyond the largest size is refused");
	stranger.begun = false;
	size = say(&stranger, "hello", bytes);
	ok(size == 5 && channel_open(&stranger, bytes, size) == 5,
	   "messages pass unchanged before the channel has a key");
}

int main(void)
{
	each_side_opens_what_the_other_seals();
	changed_missing_and_repeated_messages_are_refused();
	messages_of_strangers_and_own_messages_are_refused();
	return tap_done();
}
