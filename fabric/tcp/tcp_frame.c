/* tcp_frame: see tcp_frame.h. */
#include "fabric/tcp/tcp_frame.h"

#include <endian.h>
#include <string.h>

struct tcp_greeting tcp_greeting_swap(struct tcp_greeting greeting)
{
	greeting.magic = htole32(greeting.magic);
	greeting.version = htole16(greeting.version);
	greeting.depth = htole16(greeting.depth);
	greeting.zero = htole16(greeting.zero);
	return greeting;
}

struct tcp_frame tcp_frame_swap(struct tcp_frame frame)
{
	frame.zero = htole16(frame.zero);
	frame.length = htole32(frame.length);
	frame.sequence = htole32(frame.sequence);
	frame.rkey = htole32(frame.rkey);
	frame.address = htole64(frame.address);
	return frame;
}

#define HAS(field) (size >= offsetof(struct tcp_greeting, field) + sizeof greeting.field)

const char *tcp_greeting_check(const void *bytes, size_t size, unsigned kinds, uint16_t *ret_version)
{
	const uint32_t magic = htole32(TCP_MAGIC);
	struct tcp_greeting greeting = {0};

	memcpy(&greeting, bytes, size);
	if (memcmp(&greeting.magic, &magic, size < sizeof magic ? size : sizeof magic) != 0)
		return "not a farpage connection";
	greeting = tcp_greeting_swap(greeting);
	if (!HAS(version))
		return NULL;
	*ret_version = greeting.version;
	if (greeting.version != TCP_VERSION)
		return "another version of the protocol";
	if (HAS(kind) && (greeting.kind < TCP_CONNECT || greeting.kind > TCP_REJECT || !(kinds & 1u << greeting.kind)))
		return "unexpected kind of greeting";
	if (HAS(private_size) && greeting.private_size > FABRIC_PRIVATE_MAX)
		return "private data too large";
	if (HAS(depth) && (greeting.depth < 1 || greeting.depth > FABRIC_DEPTH_MAX))
		return "depth out of range";
	if (greeting.zero != 0)
		return "reserved field not zero";
	return NULL;
}

const char *tcp_frame_check(const struct tcp_frame *frame)
{
	if (frame->zero != 0)
		return "reserved field not zero";
	if (frame->status != TCP_GRANTED && (frame->type != TCP_DONE || frame->status != TCP_REFUSED))
		return "status out of range";
	switch (frame->type) {
	case TCP_READ:
	case TCP_WRITE:
		return frame->length < 1 || frame->length > FABRIC_OP_MAX ? "length out of range" : NULL;
	case TCP_DONE:
		if (frame->rkey != 0 || frame->address != 0)
			return "unused field not zero";
		return frame->length > (frame->status == TCP_REFUSED ? 0 : FABRIC_OP_MAX) ? "length out of range"
											  : NULL;
	case TCP_MESSAGE:
		if (frame->rkey != 0 || frame->address != 0 || frame->sequence != 0)
			return "unused field not zero";
		return frame->length < 1 || frame->length > FABRIC_MESSAGE_MAX ? "length out of range" : NULL;
	default:
		return "unknown type of frame";
	}
}
