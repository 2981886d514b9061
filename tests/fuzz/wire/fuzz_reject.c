/* Fuzzes the decoder of rejects. An accepted reject encodes to the same bytes. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_reject reject;
	uint8_t again[WIRE_REJECT_SIZE];

	if (wire_decode_reject(data, size, &reject))
		return 0;
	if (reject.reason >= WIRE_REASON_COUNT || wire_encode_reject(&reject, again) != size ||
	    memcmp(again, data, size))
		abort();
	return 0;
}
