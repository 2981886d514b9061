/* channel: see channel.h. */
#include "wire/channel.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void channel_begin(struct channel *channel, const uint8_t session_key[AUTH_KEY_SIZE], bool client)
{
	*channel = (struct channel){.client = client, .begun = true};
	memcpy(channel->key, session_key, AUTH_KEY_SIZE);
}

size_t channel_seal(struct channel *channel, uint8_t bytes[WIRE_SEALED_MAX], size_t size)
{
	assert(size <= WIRE_MESSAGE_MAX);
	if (!channel->begun)
		return size;
	auth_message_mac(channel->key, channel->client, channel->said++, bytes, size, bytes + size);
	return size + WIRE_SEAL_SIZE;
}

int channel_open(struct channel *channel, const void *bytes, size_t size)
{
	uint8_t mac[WIRE_SEAL_SIZE];

	if (!channel->begun)
		return (int)size;
	if (size < sizeof mac || size > WIRE_SEALED_MAX)
		return -EBADMSG;
	size -= sizeof mac;
	auth_message_mac(channel->key, !channel->client, channel->heard, bytes, size, mac);
	if (!auth_mac_equal(mac, (const uint8_t *)bytes + size, sizeof mac))
		return -EBADMSG;
	channel->heard++;
	return (int)size;
}
