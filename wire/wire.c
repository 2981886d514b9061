/*
 * wire: see wire/wire.h.
 *
 * Theory of operation. Each message type has a table of fields, which lists its bytes in order. The encoder and the
 * decoder both follow this table, so their formats cannot differ. An entry has the width of a field, its place in the
 * C struct, and a kind, which says what values the decoder accepts. Reserved bytes are fields of the kind FIELD_ZERO.
 * Rules that concern several fields are in capacity_check() and granted_check(). The layout, in bytes, little-endian:
 *
 *     hello    magic 4, version 2, role 1, 0, id 16, then SESSION: nonce 16, 0 x 16; ATTACH: counter 8, mac 16, 0 x 8
 *     reject   magic 4, reason 2, detail 2
 *     message  type 2, size 2 (header and body), request 4, body
 *
 * Magic and version have the same place in all versions, and a reject does not depend on the version. So an old donor
 * can still tell a new client why it rejects the connection.
 *
 * Threads: any.
 */
#include "wire/wire.h"

#include "common/format.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum field_kind {
	FIELD_NUMBER, /* 1, 2, 4 or 8 bytes */
	FIELD_BOOL,   /* one byte, 0 or 1 */
	FIELD_REASON, /* 2 bytes, below WIRE_REASON_COUNT */
	FIELD_BYTES,
	FIELD_TEXT, /* printable ASCII, then at least one zero byte */
	FIELD_ZERO, /* reserved */
};

struct field {
	uint8_t kind, size;
	uint16_t place; /* offset in the C struct; unused for FIELD_ZERO */
};

#define PLACED(kind, type, member)                                                                                     \
	{                                                                                                              \
		kind, sizeof(((type *)0)->member), offsetof(type, member)                                              \
	}
#define NUMBER(type, member) PLACED(FIELD_NUMBER, type, member)
#define BOOL(type, member) PLACED(FIELD_BOOL, type, member)
#define REASON(type, member) PLACED(FIELD_REASON, type, member)
#define BYTES(type, member) PLACED(FIELD_BYTES, type, member)
#define TEXT(type, member) PLACED(FIELD_TEXT, type, member)
#define ZERO(size)                                                                                                     \
	{                                                                                                              \
		FIELD_ZERO, size, 0                                                                                    \
	}
#define END                                                                                                            \
	{                                                                                                              \
		0, 0, 0                                                                                                \
	}

/* --- Numbers and fields ---------------------------------------------------------------------------------- */

static void put_number(uint8_t *bytes, unsigned size, uint64_t value)
{
	for (unsigned i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_number(const uint8_t *bytes, unsigned size)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static uint64_t load_member(const void *member, unsigned size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		assert(size == 8);
		return *(const uint64_t *)member;
	}
}

static void store_member(void *member, unsigned size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		assert(size == 8);
		*(uint64_t *)member = value;
	}
}

/* Returns the number of bytes written. */
static size_t fields_encode(const struct field *fields, const void *object, uint8_t *bytes)
{
	size_t at = 0;

	for (; fields->size; at += fields++->size) {
		const uint8_t *member = (const uint8_t *)object + fields->place;

		if (fields->kind == FIELD_ZERO)
			memset(bytes + at, 0, fields->size);
		else if (fields->kind == FIELD_BYTES || fields->kind == FIELD_TEXT)
			memcpy(bytes + at, member, fields->size);
		else
			put_number(bytes + at, fields->size, load_member(member, fields->size));
	}
	return at;
}

static bool bytes_are_zero(const uint8_t *bytes, size_t size)
{
	uint8_t any = 0;

	for (size_t i = 0; i < size; i++)
		any |= bytes[i];
	return !any;
}

static bool bytes_are_text(const uint8_t *bytes, size_t size)
{
	size_t length = strnlen((const char *)bytes, size);

	for (size_t i = 0; i < length; i++) {
		if (bytes[i] < ' ' || bytes[i] > '~')
			return false;
	}
	return length < size && bytes_are_zero(bytes + length, size - length);
}

/* Decodes @fields into @object. @bytes must have the size of all fields. Returns 0 or -EPROTO. */
static int fields_decode(const struct field *fields, const uint8_t *bytes, void *object)
{
	for (; fields->size; bytes += fields++->size) {
		uint8_t *member = (uint8_t *)object + fields->place;

		if (fields->kind == FIELD_ZERO) {
			if (!bytes_are_zero(bytes, fields->size))
				return -EPROTO;
			continue;
		}
		if (fields->kind == FIELD_TEXT && !bytes_are_text(bytes, fields->size))
			return -EPROTO;
		if (fields->kind == FIELD_BYTES || fields->kind == FIELD_TEXT) {
			memcpy(member, bytes, fields->size);
			continue;
		}
		uint64_t value = get_number(bytes, fields->size);
		if (fields->kind == FIELD_BOOL && value > 1)
			return -EPROTO;
		if (fields->kind == FIELD_REASON && value >= WIRE_REASON_COUNT)
			return -EPROTO;
		store_member(member, fields->size, value);
	}
	return 0;
}

/* --- Hello and reject ------------------------------------------------------------------------------------ */

#define HELLO_VERSION_AT 4
#define HELLO_ROLE_AT 6
#define HELLO_HEADER_SIZE 8

static const struct field hello_fields[] = {BYTES(struct wire_hello, id), END};
static const struct field session_fields[] = {BYTES(struct wire_hello, nonce), ZERO(16), END};
static const struct field attach_fields[] = {
    NUMBER(struct wire_hello, counter),
    BYTES(struct wire_hello, mac),
    ZERO(8),
    END,
};
static_assert(HELLO_HEADER_SIZE + WIRE_ID_SIZE + WIRE_NONCE_SIZE + 16 == WIRE_HELLO_SIZE, "a session's hello");
static_assert(HELLO_HEADER_SIZE + WIRE_ID_SIZE + 8 + WIRE_ATTACH_MAC_SIZE + 8 == WIRE_HELLO_SIZE, "an attach's hello");

size_t wire_encode_hello(const struct wire_hello *hello, uint8_t bytes[WIRE_HELLO_SIZE])
{
	assert(hello->role == WIRE_SESSION || hello->role == WIRE_ATTACH);
	put_number(bytes, 4, WIRE_MAGIC);
	put_number(bytes + HELLO_VERSION_AT, 2, hello->version);
	put_number(bytes + HELLO_ROLE_AT, 1, hello->role);
	put_number(bytes + HELLO_ROLE_AT + 1, 1, 0);
	size_t size = HELLO_HEADER_SIZE;
	size += fields_encode(hello_fields, hello, bytes + size);
	size += fields_encode(hello->role == WIRE_SESSION ? session_fields : attach_fields, hello, bytes + size);
	assert(size == WIRE_HELLO_SIZE);
	return size;
}

int wire_decode_hello(const void *data, size_t size, struct wire_hello *ret_hello)
{
	const uint8_t *bytes = data;

	if (size < HELLO_HEADER_SIZE || get_number(bytes, 4) != WIRE_MAGIC)
		return -EPROTO;
	struct wire_hello hello = {
	    .version = (uint16_t)get_number(bytes + HELLO_VERSION_AT, 2),
	    .role = bytes[HELLO_ROLE_AT],
	};
	if (hello.version != WIRE_VERSION) {
		ret_hello->version = hello.version;
		return -EPROTONOSUPPORT;
	}
	if (size != WIRE_HELLO_SIZE || bytes[HELLO_ROLE_AT + 1])
		return -EPROTO;
	if (hello.role != WIRE_SESSION && hello.role != WIRE_ATTACH)
		return -EPROTO;
	const struct field *rest = hello.role == WIRE_SESSION ? session_fields : attach_fields;
	if (fields_decode(hello_fields, bytes + HELLO_HEADER_SIZE, &hello) ||
	    fields_decode(rest, bytes + HELLO_HEADER_SIZE + WIRE_ID_SIZE, &hello))
		return -EPROTO;
	*ret_hello = hello;
	return 0;
}

static const struct field reject_fields[] = {
    REASON(struct wire_reject, reason),
    NUMBER(struct wire_reject, detail),
    END,
};
static_assert(4 + 2 + 2 == WIRE_REJECT_SIZE, "a reject");

size_t wire_encode_reject(const struct wire_reject *reject, uint8_t bytes[WIRE_REJECT_SIZE])
{
	put_number(bytes, 4, WIRE_MAGIC);
	return 4 + fields_encode(reject_fields, reject, bytes + 4);
}

int wire_decode_reject(const void *data, size_t size, struct wire_reject *ret_reject)
{
	const uint8_t *bytes = data;
	struct wire_reject reject = {0};

	if (size != WIRE_REJECT_SIZE || get_number(bytes, 4) != WIRE_MAGIC)
		return -EPROTO;
	if (fields_decode(reject_fields, bytes + 4, &reject))
		return -EPROTO;
	*ret_reject = reject;
	return 0;
}

/* --- Messages -------------------------------------------------------------------------------------------- */

#define M struct wire_message
#define HEADER_SIZE 8
#define CAPACITY_SIZE 32
#define ABOUT_SIZE 116
#define ABOUT(member) TEXT(M, member.host), TEXT(M, member.user), TEXT(M, member.command), NUMBER(M, member.pid)
#define CAPACITY(member)                                                                                               \
	NUMBER(M, member.donated), NUMBER(M, member.leased), NUMBER(M, member.slab_bytes), NUMBER(M, member.clients),  \
	    NUMBER(M, member.state)

static const struct field challenge_fields[] = {BYTES(M, challenge.nonce), BOOL(M, challenge.needs_key), ZERO(7), END};
static const struct field proof_fields[] = {
    BYTES(M, proof.mac),        BOOL(M, proof.has_key), ZERO(3), NUMBER(M, proof.grace_ms),
    NUMBER(M, proof.closed_ms), ABOUT(proof.about),     END,
};
static const struct field welcome_fields[] = {
    BYTES(M, welcome.mac),          NUMBER(M, welcome.grace_ms),     NUMBER(M, welcome.heartbeat_ms),
    NUMBER(M, welcome.incarnation), NUMBER(M, welcome.slabs),        ZERO(4),
    CAPACITY(welcome.capacity),     TEXT(M, welcome.failure_domain), END,
};
static const struct field refused_fields[] = {REASON(M, refused.reason), ZERO(6), END};
static const struct field granted_fields[] = {
    NUMBER(M, granted.slab),
    NUMBER(M, granted.address),
    NUMBER(M, granted.bytes),
    NUMBER(M, granted.rkey),
    ZERO(4),
    CAPACITY(granted.capacity),
    END,
};
static const struct field denied_fields[] = {REASON(M, denied.reason), ZERO(6), CAPACITY(denied.capacity), END};
static const struct field release_fields[] = {NUMBER(M, release.slab), END};
static const struct field claim_fields[] = {NUMBER(M, claim.slab), END};
static const struct field released_fields[] = {NUMBER(M, released.slab), CAPACITY(released.capacity), END};
static const struct field status_reply_fields[] = {CAPACITY(status_reply.capacity), END};
static const struct field keep_fields[] = {NUMBER(M, keep.slab), END};
static const struct field revoke_fields[] = {
    NUMBER(M, revoke.slab), NUMBER(M, revoke.deadline_ms), ZERO(4), CAPACITY(revoke.capacity), END,
};
static const struct field revoked_fields[] = {NUMBER(M, revoked.slab), CAPACITY(revoked.capacity), END};
#define WARM(i) NUMBER(M, warm.of[i].slab), NUMBER(M, warm.of[i].warmth)
static const struct field warm_fields[] = {
    WARM(0), WARM(1),  WARM(2),  WARM(3),  WARM(4),  WARM(5),  WARM(6),  WARM(7), WARM(8),
    WARM(9), WARM(10), WARM(11), WARM(12), WARM(13), WARM(14), WARM(15), END,
};
static_assert(WIRE_WARM_SLABS == 16, "warm_fields has them all");
static const struct field drain_fields[] = {NUMBER(M, drain.what), NUMBER(M, drain.deadline_ms), END};
static const struct field draining_fields[] = {
    NUMBER(M, draining.slabs),   NUMBER(M, draining.holders),
    NUMBER(M, draining.left_ms), ZERO(4),
    CAPACITY(draining.capacity), END,
};
static const struct field holder_fields[] = {NUMBER(M, holder.from), ZERO(4), END};
static const struct field holder_reply_fields[] = {
    NUMBER(M, holder_reply.next),   NUMBER(M, holder_reply.slabs),
    BOOL(M, holder_reply.away),     ZERO(3),
    NUMBER(M, holder_reply.held_s), BYTES(M, holder_reply.name),
    TEXT(M, holder_reply.peer),     TEXT(M, holder_reply.key),
    ABOUT(holder_reply.about),      END,
};
static const struct field no_fields[] = {END};

#define HOLDER_REPLY_SIZE (16 + WIRE_NAME_SIZE + WIRE_ADDRESS_SIZE + WIRE_KEY_NAME_SIZE + ABOUT_SIZE)
static_assert(sizeof(struct wire_about) == ABOUT_SIZE, "ABOUT has all fields");
#define NO_CAPACITY 0

static const struct layout {
	const char *name;
	const struct field *fields;
	uint16_t body_size;
	uint16_t capacity; /* offset of the message's struct wire_capacity, or NO_CAPACITY */
} layouts[WIRE_TYPE_COUNT] = {
    [WIRE_CHALLENGE] = {"challenge", challenge_fields, WIRE_NONCE_SIZE + 8, NO_CAPACITY},
    [WIRE_PROOF] = {"proof", proof_fields, WIRE_MAC_SIZE + 12 + ABOUT_SIZE, NO_CAPACITY},
    [WIRE_WELCOME] = {"welcome", welcome_fields, WIRE_MAC_SIZE + 24 + CAPACITY_SIZE + WIRE_FAILURE_DOMAIN_SIZE,
		      offsetof(M, welcome.capacity)},
    [WIRE_REFUSED] = {"refused", refused_fields, 8, NO_CAPACITY},
    [WIRE_LEASE] = {"lease", no_fields, 0, NO_CAPACITY},
    [WIRE_GRANTED] = {"granted", granted_fields, 32 + CAPACITY_SIZE, offsetof(M, granted.capacity)},
    [WIRE_DENIED] = {"denied", denied_fields, 8 + CAPACITY_SIZE, offsetof(M, denied.capacity)},
    [WIRE_RELEASE] = {"release", release_fields, 8, NO_CAPACITY},
    [WIRE_RELEASED] = {"released", released_fields, 8 + CAPACITY_SIZE, offsetof(M, released.capacity)},
    [WIRE_STATUS] = {"status", no_fields, 0, NO_CAPACITY},
    [WIRE_STATUS_REPLY] = {"status reply", status_reply_fields, CAPACITY_SIZE, offsetof(M, status_reply.capacity)},
    [WIRE_PING] = {"ping", no_fields, 0, NO_CAPACITY},
    [WIRE_PONG] = {"pong", no_fields, 0, NO_CAPACITY},
    [WIRE_BYE] = {"bye", no_fields, 0, NO_CAPACITY},
    [WIRE_CLAIM] = {"claim", claim_fields, 8, NO_CAPACITY},
    [WIRE_CLAIMED] = {"claimed", no_fields, 0, NO_CAPACITY},
    [WIRE_REVOKE] = {"revoke", revoke_fields, 16 + CAPACITY_SIZE, offsetof(M, revoke.capacity)},
    [WIRE_REVOKED] = {"revoked", revoked_fields, 8 + CAPACITY_SIZE, offsetof(M, revoked.capacity)},
    [WIRE_KEEP] = {"keep", keep_fields, 8, NO_CAPACITY},
    [WIRE_WARM] = {"warm", warm_fields, WIRE_WARM_SLABS * 12, NO_CAPACITY},
    [WIRE_DRAIN] = {"drain", drain_fields, 8, NO_CAPACITY},
    [WIRE_DRAINING] = {"draining", draining_fields, 16 + CAPACITY_SIZE, offsetof(M, draining.capacity)},
    [WIRE_HOLDER] = {"holder", holder_fields, 8, NO_CAPACITY},
    [WIRE_HOLDER_REPLY] = {"holder reply", holder_reply_fields, HOLDER_REPLY_SIZE, NO_CAPACITY},
    [WIRE_SUSPEND] = {"suspend", no_fields, 0, NO_CAPACITY},
};
static_assert(HEADER_SIZE + HOLDER_REPLY_SIZE <= WIRE_MESSAGE_MAX, "the largest, a holder reply, fits");
static_assert(HEADER_SIZE + WIRE_WARM_SLABS * 12 <= WIRE_MESSAGE_MAX, "a warm fits");
static_assert(WIRE_SUSPEND + 1 == WIRE_TYPE_COUNT, "every type has its layout");

#define SLAB_UNIT 4096u

static bool is_power_of_two(uint64_t number)
{
	return number && !(number & (number - 1));
}

/* Returns true if the figures are consistent. If a donor hides its figures, all of them are 0. */
static bool capacity_check(const struct wire_capacity *capacity)
{
	if (!capacity->slab_bytes)
		return !capacity->donated && !capacity->leased && !capacity->clients && !capacity->state;
	return capacity->state < WIRE_STATE_COUNT && capacity->slab_bytes >= SLAB_UNIT &&
	       is_power_of_two(capacity->slab_bytes) && capacity->leased <= capacity->donated;
}

static bool granted_check(uint64_t address, uint64_t bytes)
{
	return bytes && bytes % SLAB_UNIT == 0 && bytes - 1 <= UINT64_MAX - address;
}

bool wire_failure_domain_is_valid(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return length && length < WIRE_FAILURE_DOMAIN_SIZE && !name[length];
}

size_t wire_encode(const struct wire_message *message, uint8_t bytes[WIRE_MESSAGE_MAX])
{
	assert(message->type > 0 && message->type < WIRE_TYPE_COUNT);
	const struct layout *layout = &layouts[message->type];
	size_t size = HEADER_SIZE + fields_encode(layout->fields, message, bytes + HEADER_SIZE);
	assert(size == (size_t)HEADER_SIZE + layout->body_size);
	put_number(bytes, 2, message->type);
	put_number(bytes + 2, 2, size);
	put_number(bytes + 4, 4, message->request);
	return size;
}

int wire_decode(const void *data, size_t size, struct wire_message *ret_message)
{
	const uint8_t *bytes = data;
	struct wire_message message;

	memset(&message, 0, sizeof message);
	if (size < HEADER_SIZE || size > WIRE_MESSAGE_MAX)
		return -EPROTO;
	message.type = (uint16_t)get_number(bytes, 2);
	message.request = (uint32_t)get_number(bytes + 4, 4);
	if (!message.type || message.type >= WIRE_TYPE_COUNT)
		return -EPROTO;
	const struct layout *layout = &layouts[message.type];
	if (size != (size_t)HEADER_SIZE + layout->body_size || get_number(bytes + 2, 2) != size)
		return -EPROTO;
	if (fields_decode(layout->fields, bytes + HEADER_SIZE, &message))
		return -EPROTO;
	if (layout->capacity != NO_CAPACITY &&
	    !capacity_check((const struct wire_capacity *)((const uint8_t *)&message + layout->capacity)))
		return -EPROTO;
	if (message.type == WIRE_GRANTED && !granted_check(message.granted.address, message.granted.bytes))
		return -EPROTO;
	if (message.type == WIRE_WELCOME && *message.welcome.failure_domain &&
	    !wire_failure_domain_is_valid(message.welcome.failure_domain))
		return -EPROTO;
	if (message.type == WIRE_DRAIN && message.drain.what >= WIRE_DRAIN_COUNT)
		return -EPROTO;
	*ret_message = message;
	return 0;
}

/* --- Names ----------------------------------------------------------------------------------------------- */

const char *wire_type_name(unsigned type)
{
	return type > 0 && type < WIRE_TYPE_COUNT ? layouts[type].name : "unknown message";
}

const char *wire_reason_name(unsigned reason)
{
	static const char *const names[] = {
	    [WIRE_REASON_NONE] = "no reason given",
	    [WIRE_REASON_VERSION] = "another protocol version",
	    [WIRE_REASON_MALFORMED] = "malformed message",
	    [WIRE_REASON_KEY] = "wrong key",
	    [WIRE_REASON_KEY_NEEDED] = "a key is needed",
	    [WIRE_REASON_KEY_UNKNOWN] = "the donor has no key",
	    [WIRE_REASON_FULL] = "full",
	    [WIRE_REASON_NO_SESSION] = "no such session",
	    [WIRE_REASON_REPLAY] = "replayed",
	    [WIRE_REASON_LEAVING] = "shutting down",
	    [WIRE_REASON_DRAINING] = "draining",
	    [WIRE_REASON_TAKEN] = "taken back",
	    [WIRE_REASON_ADMIN] = "the admin key is needed",
	};
	static_assert(sizeof names / sizeof *names == WIRE_REASON_COUNT, "every reason has its name");
	return reason < WIRE_REASON_COUNT ? names[reason] : "unknown reason";
}

const char *wire_about_text(const struct wire_about *about, char text[WIRE_ABOUT_TEXT_MAX])
{
	format_text(text, WIRE_ABOUT_TEXT_MAX, "%s (pid %u) of %s on %s", *about->command ? about->command : "?",
		    about->pid, *about->user ? about->user : "?", *about->host ? about->host : "?");
	return text;
}
