/*
 * Fuzzes the decoder of hellos. An accepted hello encodes to the same bytes. A hello of another version only sets the
 * version.
 */
#include "wire/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_hello hello, untouched;
	uint8_t again[WIRE_HELLO_SIZE];

	memset(&hello, 0x5a, sizeof hello);
	memset(&untouched, 0x5a, sizeof untouched);
	int error = wire_decode_hello(data, size, &hello);
	if (!error) {
		if (wire_encode_hello(&hello, again) != size || memcmp(again, data, size))
			abort();
		return 0;
	}
	if (error == -EPROTONOSUPPORT) {
		if (hello.version == WIRE_VERSION)
			abort();
		hello.version = untouched.version;
	} else if (error != -EPROTO) {
		abort();
	}
	if (memcmp(&hello, &untouched, sizeof hello))
		abort();
	return 0;
}
