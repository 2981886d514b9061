/* wire: every message decodes to the message that was sent, and every wrong byte is refused. */
#include "fabric/fabric.h"
#include "tests/lib/tap.h"
#include "tests/unit/wire/bytes.h"
#include "wire/wire.h"

#include <assert.h>
#include <errno.h>

static_assert(WIRE_HELLO_SIZE == FABRIC_PRIVATE_MAX, "a hello fills the private data of a connect");
static_assert(WIRE_REJECT_SIZE <= FABRIC_PRIVATE_MAX, "a reject fits into private data");
static_assert(WIRE_SEALED_MAX == FABRIC_MESSAGE_MAX && WIRE_MESSAGE_MAX + WIRE_SEAL_SIZE == WIRE_SEALED_MAX,
	      "a sealed message fills a message of the fabric");

static struct random_state randomness;

static struct wire_capacity random_capacity(void)
{
	uint64_t donated = random_next(&randomness) >> 8;

	return (struct wire_capacity){
	    .donated = donated,
	    .leased = random_below(&randomness, donated + 1),
	    .slab_bytes = 4096ull << random_below(&randomness, 40),
	    .clients = (uint32_t)random_next(&randomness),
	    .state = (uint32_t)random_below(&randomness, WIRE_STATE_COUNT),
	};
}

/* Fills @text with printable characters up to a random length. It is all zero before. */
static void random_text(char *text, size_t size)
{
	size_t length = random_below(&randomness, size);

	for (size_t i = 0; i < length; i++)
		text[i] = (char)(' ' + random_below(&randomness, '~' - ' ' + 1));
}

static void random_about(struct wire_about *ret_about)
{
	random_text(ret_about->host, sizeof ret_about->host);
	random_text(ret_about->user, sizeof ret_about->user);
	random_text(ret_about->command, sizeof ret_about->command);
	ret_about->pid = (uint32_t)random_next(&randomness);
}

/* Fills the fields of the messages about draining and revoking. */
static void random_revocation(struct wire_message *message)
{
	switch (message->type) {
	case WIRE_REVOKE:
		message->revoke.slab = random_next(&randomness);
		message->revoke.deadline_ms = (uint32_t)random_next(&randomness);
		message->revoke.capacity = random_capacity();
		break;
	case WIRE_REVOKED:
		message->revoked.slab = random_next(&randomness);
		message->revoked.capacity = random_capacity();
		break;
	case WIRE_KEEP:
		message->keep.slab = random_next(&randomness);
		break;
	case WIRE_WARM:
		for (unsigned i = 0; i < WIRE_WARM_SLABS; i++) {
			message->warm.of[i].slab = random_next(&randomness);
			message->warm.of[i].warmth = (uint32_t)random_next(&randomness);
		}
		break;
	case WIRE_DRAIN:
		message->drain.what = (uint32_t)random_below(&randomness, WIRE_DRAIN_COUNT);
		message->drain.deadline_ms = (uint32_t)random_next(&randomness);
		break;
	case WIRE_DRAINING:
		message->draining.slabs = (uint32_t)random_next(&randomness);
		message->draining.holders = (uint32_t)random_next(&randomness);
		message->draining.left_ms = (uint32_t)random_next(&randomness);
		message->draining.capacity = random_capacity();
		break;
	case WIRE_HOLDER:
		message->holder.from = (uint32_t)random_next(&randomness);
		break;
	case WIRE_HOLDER_REPLY:
		message->holder_reply.next = (uint32_t)random_next(&randomness);
		message->holder_reply.slabs = (uint32_t)random_next(&randomness);
		message->holder_reply.away = random_next(&randomness) & 1;
		message->holder_reply.held_s = (uint32_t)random_next(&randomness);
		random_bytes(&randomness, message->holder_reply.name, WIRE_NAME_SIZE);
		snprintf(message->holder_reply.peer, WIRE_ADDRESS_SIZE, "tcp://10.0.0.7:%u",
			 (unsigned)random_below(&randomness, 65536));
		random_text(message->holder_reply.key, WIRE_KEY_NAME_SIZE);
		random_about(&message->holder_reply.about);
		break;
	}
}

/* Returns a valid message of @type with random contents. */
static struct wire_message random_message(unsigned type)
{
	struct wire_message message;

	memset(&message, 0, sizeof message);
	message.type = (uint16_t)type;
	message.request = (uint32_t)random_next(&randomness);
	switch (type) {
	case WIRE_CHALLENGE:
		random_bytes(&randomness, message.challenge.nonce, WIRE_NONCE_SIZE);
		message.challenge.needs_key = random_next(&randomness) & 1;
		break;
	case WIRE_PROOF:
		random_bytes(&randomness, message.proof.mac, WIRE_MAC_SIZE);
		message.proof.has_key = random_next(&randomness) & 1;
		message.proof.grace_ms = (uint32_t)random_next(&randomness);
		message.proof.closed_ms = (uint32_t)random_next(&randomness);
		random_about(&message.proof.about);
		break;
	case WIRE_WELCOME:
		random_bytes(&randomness, message.welcome.mac, WIRE_MAC_SIZE);
		message.welcome.grace_ms = (uint32_t)random_next(&randomness);
		message.welcome.heartbeat_ms = (uint32_t)random_next(&randomness);
		message.welcome.incarnation = random_next(&randomness);
		message.welcome.slabs = (uint32_t)random_next(&randomness);
		message.welcome.capacity = random_capacity();
		if (random_next(&randomness) & 1)
			snprintf(message.welcome.failure_domain, WIRE_FAILURE_DOMAIN_SIZE, "rack-%u",
				 (unsigned)random_below(&randomness, 100));
		break;
	case WIRE_REFUSED:
		message.refused.reason = (uint16_t)random_below(&randomness, WIRE_REASON_COUNT);
		break;
	case WIRE_GRANTED:
		message.granted.slab = random_next(&randomness);
		message.granted.address = random_next(&randomness) >> 1;
		message.granted.bytes = 4096 * (1 + random_below(&randomness, 1 << 20));
		message.granted.rkey = (uint32_t)random_next(&randomness);
		message.granted.capacity = random_capacity();
		break;
	case WIRE_DENIED:
		message.denied.reason = (uint16_t)random_below(&randomness, WIRE_REASON_COUNT);
		message.denied.capacity = random_capacity();
		break;
	case WIRE_RELEASE:
		message.release.slab = random_next(&randomness);
		break;
	case WIRE_CLAIM:
		message.claim.slab = random_next(&randomness);
		break;
	case WIRE_RELEASED:
		message.released.slab = random_next(&randomness);
		message.released.capacity = random_capacity();
		break;
	case WIRE_STATUS_REPLY:
		message.status_reply.capacity = random_capacity();
		break;
	default:
		random_revocation(&message);
	}
	return message;
}

static bool refuses(const uint8_t *bytes, size_t size)
{
	struct wire_message message;

	memset(&message, 0x5a, sizeof message);
	return wire_decode(bytes, size, &message) == -EPROTO && is_untouched(&message, sizeof message);
}

static void messages_decode_to_what_was_sent(void)
{
	for (unsigned type = 1; type < WIRE_TYPE_COUNT; type++) {
		unsigned bad = 0;

		for (unsigned i = 0; i < 200; i++) {
			struct wire_message sent = random_message(type), came;
			uint8_t bytes[WIRE_MESSAGE_MAX];
			size_t size = wire_encode(&sent, bytes);

			bad +=
			    size > sizeof bytes || wire_decode(bytes, size, &came) || memcmp(&came, &sent, sizeof sent);
		}
		ok(bad == 0, "the message '%s' decodes to what was sent", wire_type_name(type));
	}
}

static void messages_of_another_size_are_refused(void)
{
	for (unsigned type = 1; type < WIRE_TYPE_COUNT; type++) {
		struct wire_message message = random_message(type);
		uint8_t bytes[WIRE_MESSAGE_MAX + 1] = {0};
		size_t right = wire_encode(&message, bytes);
		unsigned accepted = 0;

		for (size_t size = 0; size <= sizeof bytes; size++)
			accepted += size != right && !refuses(bytes, size);
		/* A wrong size is refused even if the header claims the same size. */
		for (size_t size = 8; size <= WIRE_MESSAGE_MAX; size++) {
			bytes[2] = (uint8_t)size;
			bytes[3] = (uint8_t)(size >> 8);
			accepted += size != right && (!refuses(bytes, size) || !refuses(bytes, right));
		}
		ok(accepted == 0, "the message '%s' is refused at any other size", wire_type_name(type));
	}
}

/* An accepted message encodes to the same bytes again. So no flipped reserved bit goes unnoticed. */
static void flipped_bits_are_refused_or_decoded(void)
{
	for (unsigned type = 1; type < WIRE_TYPE_COUNT; type++) {
		struct wire_message message = random_message(type), came;
		uint8_t bytes[WIRE_MESSAGE_MAX], again[WIRE_MESSAGE_MAX];
		size_t size = wire_encode(&message, bytes);
		unsigned lost = 0;

		for (unsigned bit = 0; bit < 8 * size; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (!wire_decode(bytes, size, &came))
				lost += wire_encode(&came, again) != size || memcmp(bytes, again, size);
			else
				lost += !refuses(bytes, size);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		ok(lost == 0, "every flipped bit of the message '%s' is refused or decoded", wire_type_name(type));
	}
}

/* The places of reserved bytes. They are written down here a second time on purpose. */
static const struct {
	uint8_t type, first, count;
} reserved[] = {
    {WIRE_CHALLENGE, 8 + 17, 7}, {WIRE_PROOF, 8 + 33, 3},       {WIRE_WELCOME, 8 + 52, 4}, {WIRE_REFUSED, 8 + 2, 6},
    {WIRE_GRANTED, 8 + 28, 4},   {WIRE_DENIED, 8 + 2, 6},       {WIRE_REVOKE, 8 + 12, 4},  {WIRE_DRAINING, 8 + 12, 4},
    {WIRE_HOLDER, 8 + 4, 4},     {WIRE_HOLDER_REPLY, 8 + 9, 3},
};

static void reserved_bytes_must_be_zero(void)
{
	for (unsigned i = 0; i < sizeof reserved / sizeof *reserved; i++) {
		struct wire_message message = random_message(reserved[i].type);
		uint8_t bytes[WIRE_MESSAGE_MAX];
		size_t size = wire_encode(&message, bytes);
		unsigned accepted = 0;

		for (unsigned bit = 8u * reserved[i].first; bit < 8u * (reserved[i].first + reserved[i].count); bit++) {
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			accepted += !refuses(bytes, size);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		ok(accepted == 0, "the message '%s' is refused with a bit set in its reserved bytes at %u",
		   wire_type_name(reserved[i].type), reserved[i].first);
	}
}

/*
 * Encodes @message, which may be invalid, because the encoder does not check it. Returns true if the decoder refuses
 * the bytes.
 */
static bool is_refused(const struct wire_message *message)
{
	uint8_t bytes[WIRE_MESSAGE_MAX];

	return refuses(bytes, wire_encode(message, bytes));
}

static void impossible_capacities_are_refused(void)
{
	static const struct {
		struct wire_capacity capacity;
		bool good;
		const char *why;
	} cases[] = {
	    {{0, 0, 0, 0, 0}, true, "all fields zero"},
	    {{100, 0, 4096, 1, WIRE_STATE_DRAINING}, true, "state draining"},
	    {{100, 0, 4096, 1, WIRE_STATE_COUNT}, false, "an unknown state"},
	    {{0, 0, 0, 0, WIRE_STATE_DRAINING}, false, "a state, but no slab size"},
	    {{100, 100, 4096, 1, 0}, true, "all memory leased"},
	    {{0, 0, 64 << 20, 0, 0}, true, "no memory donated"},
	    {{UINT64_MAX, UINT64_MAX, 1ull << 63, UINT32_MAX, 0}, true, "the largest values"},
	    {{100, 101, 4096, 1, 0}, false, "more leased than donated"},
	    {{100, 0, 0, 0, 0}, false, "donated memory, but no slab size"},
	    {{0, 0, 0, 1, 0}, false, "clients, but no slab size"},
	    {{100, 0, 2048, 0, 0}, false, "a slab below a page"},
	    {{100, 0, 1, 0, 0}, false, "a slab of one byte"},
	    {{100, 0, 3 * 4096, 0, 0}, false, "a slab of three pages"},
	    {{100, 0, 4097, 0, 0}, false, "a slab of 4097 bytes"},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wire_message messages[] = {
		    {.type = WIRE_WELCOME, .welcome.capacity = cases[i].capacity},
		    {.type = WIRE_GRANTED, .granted = {.bytes = 4096, .capacity = cases[i].capacity}},
		    {.type = WIRE_DENIED, .denied.capacity = cases[i].capacity},
		    {.type = WIRE_RELEASED, .released.capacity = cases[i].capacity},
		    {.type = WIRE_STATUS_REPLY, .status_reply.capacity = cases[i].capacity},
		    {.type = WIRE_REVOKE, .revoke.capacity = cases[i].capacity},
		    {.type = WIRE_REVOKED, .revoked.capacity = cases[i].capacity},
		    {.type = WIRE_DRAINING, .draining.capacity = cases[i].capacity},
		};
		unsigned wrong = 0;

		for (unsigned j = 0; j < sizeof messages / sizeof *messages; j++)
			wrong += is_refused(&messages[j]) == cases[i].good;
		ok(wrong == 0, "a capacity with %s is %s", cases[i].why, cases[i].good ? "accepted" : "refused");
	}
}

static void only_valid_failure_domains_are_accepted(void)
{
	static const struct {
		const char *name;
		bool good; /* the name is valid; "" in a message means no name */
	} names[] = {
	    {"rack1", true},   {"r", true},     {"DE.fra_2-rack.7", true}, {"0123456789012345678901234567890", true},
	    {"", false},       {" ", false},    {"rack 1", false},         {"rack\"1", false},
	    {"rack/1", false}, {"r\\1", false}, {"ra\nck", false},         {"r\303\244ck", false},
	    {"rack,1", false},
	};
	struct wire_message message = {.type = WIRE_WELCOME};

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		memset(message.welcome.failure_domain, 0, WIRE_FAILURE_DOMAIN_SIZE);
		memcpy(message.welcome.failure_domain, names[i].name, strlen(names[i].name));
		ok(wire_failure_domain_is_valid(names[i].name) == names[i].good &&
		       is_refused(&message) == (*names[i].name && !names[i].good),
		   "the failure domain %u of %zu bytes is %s", i, strlen(names[i].name),
		   names[i].good ? "a valid name" : "no valid name");
	}
	ok(!wire_failure_domain_is_valid("01234567890123456789012345678901"),
	   "a failure domain of 32 bytes is no valid name");
	memset(message.welcome.failure_domain, 'x', WIRE_FAILURE_DOMAIN_SIZE);
	ok(is_refused(&message), "a welcome with an unterminated failure domain is refused");
	memcpy(message.welcome.failure_domain, "rack1\0x", 8);
	memset(message.welcome.failure_domain + 8, 0, WIRE_FAILURE_DOMAIN_SIZE - 8);
	ok(is_refused(&message), "a welcome with bytes behind the end of its failure domain is refused");
}

/* Checks that every byte outside printable ASCII is refused at every place of a text in a message. */
static void text_is_checked(struct wire_message *message, char *text, size_t size, const char *name)
{
	unsigned accepted = 0;

	memset(text, 'x', size - 1);
	for (size_t at = 0; at < size - 1; at++) {
		for (unsigned byte = 1; byte < 256; byte++) {
			text[at] = (char)byte;
			accepted += is_refused(message) == (byte >= ' ' && byte <= '~');
		}
		text[at] = 'x';
	}
	ok(accepted == 0 && !is_refused(message),
	   "the message '%s' is accepted with the longest %s, and refused with a control character in it",
	   wire_type_name(message->type), name);
	text[size - 1] = 'x';
	ok(is_refused(message), "the message '%s' is refused with an unterminated %s", wire_type_name(message->type),
	   name);
	text[size - 1] = '\0';
	text[3] = '\0';
	ok(is_refused(message), "the message '%s' is refused with bytes behind the end of its %s",
	   wire_type_name(message->type), name);
	memset(text, 0, size);
	ok(!is_refused(message), "the message '%s' is accepted without a %s", wire_type_name(message->type), name);
}

static void about_is_checked(struct wire_message *message, struct wire_about *about)
{
	text_is_checked(message, about->host, sizeof about->host, "host");
	text_is_checked(message, about->user, sizeof about->user, "user");
	text_is_checked(message, about->command, sizeof about->command, "command");
}

static void only_printable_texts_are_accepted(void)
{
	struct wire_message proof = {.type = WIRE_PROOF}, holder = {.type = WIRE_HOLDER_REPLY};
	struct wire_about about = {.host = "node7", .user = "alice", .command = "python3", .pid = 4711}, none = {0};
	char text[WIRE_ABOUT_TEXT_MAX];

	about_is_checked(&proof, &proof.proof.about);
	about_is_checked(&holder, &holder.holder_reply.about);
	text_is_checked(&holder, holder.holder_reply.peer, WIRE_ADDRESS_SIZE, "address");
	text_is_checked(&holder, holder.holder_reply.key, WIRE_KEY_NAME_SIZE, "key");
	ok(strcmp(wire_about_text(&about, text), "python3 (pid 4711) of alice on node7") == 0,
	   "a client's own words are told in one text");
	ok(strcmp(wire_about_text(&none, text), "? (pid 0) of ? on ?") == 0,
	   "question marks take the place of what a client does not tell");
	memset(about.host, 'h', sizeof about.host - 1);
	memset(about.user, 'u', sizeof about.user - 1);
	memset(about.command, 'c', sizeof about.command - 1);
	about.pid = UINT32_MAX;
	ok(strlen(wire_about_text(&about, text)) == 31 + 31 + 47 + strlen(" (pid 4294967295) of  on "),
	   "the longest words of a client are told whole");
}

static void impossible_fields_are_refused(void)
{
	static const struct {
		uint64_t address, bytes;
		bool good;
	} grants[] = {
	    {0, 0, false},
	    {0, 4095, false},
	    {0, 4097, false},
	    {0, 2048, false},
	    {4096, 4096, true},
	    {UINT64_MAX - 4095, 4096, true},
	    {UINT64_MAX - 4094, 4096, false},
	    {8192, UINT64_MAX & ~4095ull, false},
	};
	for (unsigned i = 0; i < sizeof grants / sizeof *grants; i++) {
		struct wire_message message = {.type = WIRE_GRANTED};

		message.granted.address = grants[i].address;
		message.granted.bytes = grants[i].bytes;
		ok(is_refused(&message) != grants[i].good, "a grant of 0x%llx bytes at 0x%llx is %s",
		   (unsigned long long)grants[i].bytes, (unsigned long long)grants[i].address,
		   grants[i].good ? "accepted" : "refused");
	}
	struct wire_message message = {.type = WIRE_REFUSED, .refused.reason = WIRE_REASON_COUNT};
	ok(is_refused(&message), "the message 'refused' with an unknown reason does not decode");
	message = (struct wire_message){.type = WIRE_DENIED, .denied.reason = UINT16_MAX};
	ok(is_refused(&message), "the message 'denied' with an unknown reason does not decode");
	message = (struct wire_message){.type = WIRE_CHALLENGE, .challenge.needs_key = 2};
	ok(is_refused(&message), "a challenge with needs_key 2 is refused");
	message = (struct wire_message){.type = WIRE_PROOF, .proof.has_key = 255};
	ok(is_refused(&message), "a proof with has_key 255 is refused");
	message = (struct wire_message){.type = WIRE_DRAIN, .drain.what = WIRE_DRAIN_COUNT};
	ok(is_refused(&message), "a drain with an unknown order is refused");
	only_printable_texts_are_accepted();
	only_valid_failure_domains_are_accepted();
	unsigned accepted = 0;
	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		uint8_t bytes[8] = {(uint8_t)type, (uint8_t)(type >> 8), 8};

		accepted += (type == 0 || type >= WIRE_TYPE_COUNT) && !refuses(bytes, sizeof bytes);
	}
	ok(accepted == 0, "a message of an unknown type is refused");
}

/* The layout is a promise to other versions and machines. So the expected bytes are written down, not computed. */
static void the_wire_format_is_fixed(void)
{
	static const uint8_t released[] = {
	    9,    0,    48,   0,    0x44, 0x33, 0x22, 0x11, /* type, size, request */
	    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, /* slab */
	    0,    0,    0,    0x80, 0,    0,    0,    0,    /* donated: 2G */
	    0,    0,    0,    4,    0,    0,    0,    0,    /* leased: 64M */
	    0,    0,    0,    4,    0,    0,    0,    0,    /* slabs of 64M */
	    3,    0,    0,    0,    2,    0,    0,    0,    /* clients, state */
	};
	struct wire_message message = {
	    .type = WIRE_RELEASED,
	    .request = 0x11223344,
	    .released = {0x0123456789abcdef, {2ull << 30, 64 << 20, 64 << 20, 3, WIRE_STATE_DRAINING}},
	};
	uint8_t bytes[WIRE_MESSAGE_MAX];

	ok(wire_encode(&message, bytes) == sizeof released && !memcmp(bytes, released, sizeof released),
	   "the message 'released' is little-endian in a fixed order");
	static const uint8_t reject[] = {'F', 'P', 'G', '1', 1, 0, 2, 0};
	ok(wire_encode_reject(&(struct wire_reject){WIRE_REASON_VERSION, 2}, bytes) == sizeof reject &&
	       !memcmp(bytes, reject, sizeof reject),
	   "a reject has a fixed layout that begins with FPG1");
}

static void reasons_and_types_have_names(void)
{
	bool named = true;

	for (unsigned reason = 0; reason < WIRE_REASON_COUNT; reason++)
		named = named && wire_reason_name(reason) && strcmp(wire_reason_name(reason), "unknown reason");
	ok(named, "every reason has a name");
	ok(!strcmp(wire_reason_name(WIRE_REASON_KEY), "wrong key"), "WIRE_REASON_KEY is named \"wrong key\"");
	ok(!strcmp(wire_reason_name(WIRE_REASON_COUNT), "unknown reason") &&
	       !strcmp(wire_reason_name(UINT32_MAX), "unknown reason"),
	   "an unknown reason is named \"unknown reason\"");
	named = true;
	for (unsigned type = 1; type < WIRE_TYPE_COUNT; type++)
		named = named && wire_type_name(type) && strcmp(wire_type_name(type), "unknown message");
	ok(named, "every message type has a name");
	ok(!strcmp(wire_type_name(0), "unknown message") && !strcmp(wire_type_name(WIRE_TYPE_COUNT), "unknown message"),
	   "an unknown message type is named \"unknown message\"");
}

int main(void)
{
	random_seed(&randomness, 20);
	messages_decode_to_what_was_sent();
	messages_of_another_size_are_refused();
	flipped_bits_are_refused_or_decoded();
	reserved_bytes_must_be_zero();
	impossible_capacities_are_refused();
	impossible_fields_are_refused();
	the_wire_format_is_fixed();
	reasons_and_types_have_names();
	return tap_done();
}
