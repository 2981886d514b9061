/* Fuzzes the decoder of messages. An accepted message encodes to the same bytes, and its values are within bounds. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_capacity(const struct wire_capacity *capacity)
{
	if (capacity->leased > capacity->donated || capacity->slab_bytes & (capacity->slab_bytes - 1) ||
	    (capacity->slab_bytes ? capacity->slab_bytes < 4096 : capacity->donated || capacity->clients))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_message message;
	uint8_t again[WIRE_MESSAGE_MAX];

	if (wire_decode(data, size, &message))
		return 0;
	if (wire_encode(&message, again) != size || memcmp(again, data, size))
		abort();
	switch (message.type) {
	case WIRE_WELCOME:
		check_capacity(&message.welcome.capacity);
		if (*message.welcome.failure_domain && !wire_failure_domain_is_valid(message.welcome.failure_domain))
			abort();
		break;
	case WIRE_GRANTED:
		check_capacity(&message.granted.capacity);
		if (!message.granted.bytes || message.granted.bytes % 4096 ||
		    message.granted.address + (message.granted.bytes - 1) < message.granted.address)
			abort();
		break;
	case WIRE_DENIED:
		check_capacity(&message.denied.capacity);
		if (message.denied.reason >= WIRE_REASON_COUNT)
			abort();
		break;
	case WIRE_REFUSED:
		if (message.refused.reason >= WIRE_REASON_COUNT)
			abort();
		break;
	case WIRE_RELEASED:
		check_capacity(&message.released.capacity);
		break;
	case WIRE_STATUS_REPLY:
		check_capacity(&message.status_reply.capacity);
		break;
	default:
		if (!message.type || message.type >= WIRE_TYPE_COUNT)
			abort();
	}
	return 0;
}
