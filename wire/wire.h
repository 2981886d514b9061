/*
 * wire: all messages between two farpage processes, and their only validator. Pages are not messages.
 *
 * Theory of operation. A client opens one *session* with each donor, and any number of *data connections* that attach
 * to it.
 *
 *   session   The client connects with private data hello{SESSION, client id, client nonce}. Then:
 *               donor  -> CHALLENGE{donor nonce, needs key}
 *               client -> PROOF{mac}
 *               donor  -> WELCOME{mac, capacity} or REFUSED{reason}
 *             Each side proves that it knows the key (wire/auth.h). From the key and both nonces, both sides derive
 *             the session key. From PROOF and WELCOME on, every message is followed by a MAC under the session key
 *             (wire/channel.h). The only exception is a REFUSED for a wrong key.
 *   data      The client connects with private data hello{ATTACH, client id, counter, mac under the session key}. No
 *             counter is accepted twice, so nothing can be replayed. The donor accepts the connection into the
 *             session's protection domain, or rejects it, at once. So no rkey of one client works for another.
 *
 * Leases. A client asks for leases, and gives them back, on the session connection. An answer carries the id of its
 * request. Each side sends PING when it has been silent for a heartbeat. Any message counts as a sign of life.
 *
 * Coming back. A client whose connections broke opens a new session under its old id. WELCOME has the donor's
 * incarnation, and the number of slabs that the id holds. The client then CLAIMs each slab that it knows. A CLAIM is
 * answered like a LEASE, because over another device a slab has another rkey. After its last CLAIM the client says
 * CLAIMED. Slabs that it has not claimed then belong to the donor again. There are such slabs if a grant or a release
 * was lost on the way. A claim of a slab that the donor has taken back meanwhile is DENIED with WIRE_REASON_TAKEN. Only
 * that slab is lost.
 *
 * Recalls. A donor that needs memory for itself says REVOKE{slab, deadline}. The client moves the pages elsewhere, and
 * RELEASEs the slab. After the deadline the client must no longer use the slab. A little later the donor says REVOKED
 * and takes the slab: first its key becomes invalid, then its memory is freed. KEEP cancels a REVOKE. A client may
 * report how WARM its slabs are, so that donors recall the least used slabs.
 *
 * Draining. An operator's client may DRAIN a donor, which then recalls all slabs. The client may also ask for the
 * HOLDERs of leases. If the donor requires keys, draining by force needs the admin key.
 *
 * Ending. A client whose process ends says nothing: its kernel closes its connections. A client that ends a connection
 * because the donor seems not to answer says SUSPEND first. Its slabs then wait much longer (grace_ms in PROOF, instead
 * of closed_ms). SUSPEND gives a client no new right: it could ask for the same time in PROOF.
 *
 * Upgrading. A donor whose program is about to be replaced says SUSPEND to its clients. They end their connections and
 * return, and the next program has their leases. Meanwhile their machine may refuse connections, because no program
 * listens. Without SUSPEND this would mean that the donor's program, and so its memory, is gone.
 *
 * WELCOME also names the donor's failure domain, such as a rack, if its operator has named one. Replicas of a page are
 * placed in different domains.
 *
 * All integers are little-endian. A message is a header, and a body whose size depends only on its type. wire_decode()
 * checks every field. No other code of farpage looks at raw bytes from a peer.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x31475046u /* "FPG1" */
#define WIRE_VERSION 6u
#define WIRE_ID_SIZE 16u
#define WIRE_NONCE_SIZE 16u
#define WIRE_NAME_SIZE 4u
#define WIRE_MAC_SIZE 32u
#define WIRE_ATTACH_MAC_SIZE 16u
#define WIRE_HELLO_SIZE 56u /* = FABRIC_PRIVATE_MAX */
#define WIRE_REJECT_SIZE 8u
#define WIRE_MESSAGE_MAX 240u
#define WIRE_SEAL_SIZE 16u           /* the MAC behind each message of a session */
#define WIRE_SEALED_MAX 256u         /* = FABRIC_MESSAGE_MAX */
#define WIRE_ADDRESS_SIZE 64u        /* an address as text, perhaps shortened, with at least one 0 byte at the end */
#define WIRE_FAILURE_DOMAIN_SIZE 32u /* a failure domain's name, with at least one 0 byte at the end */
#define WIRE_WARM_SLABS 16u          /* slabs in one WARM */
#define WIRE_NO_DEADLINE UINT32_MAX

enum wire_role { WIRE_SESSION = 1, WIRE_ATTACH = 2 };

/* The private data of a connect. */
struct wire_hello {
	uint16_t version;
	uint8_t role;                      /* enum wire_role */
	uint8_t id[WIRE_ID_SIZE];          /* the client's id: random, and new for each store */
	uint8_t nonce[WIRE_NONCE_SIZE];    /* SESSION: the client's nonce */
	uint64_t counter;                  /* ATTACH: greater than any that this client has used in the session */
	uint8_t mac[WIRE_ATTACH_MAC_SIZE]; /* ATTACH: auth_attach_mac() */
};

/* The reasons of a refusal. The numbers are part of the wire: never change them. */
enum wire_reason {
	WIRE_REASON_NONE = 0,
	WIRE_REASON_VERSION = 1, /* detail: the donor's version */
	WIRE_REASON_MALFORMED = 2,
	WIRE_REASON_KEY = 3,         /* wrong key */
	WIRE_REASON_KEY_NEEDED = 4,  /* the donor has a key, the client has none */
	WIRE_REASON_KEY_UNKNOWN = 5, /* the client has a key, the donor has none */
	WIRE_REASON_FULL = 6,        /* too many clients, or no free slab */
	WIRE_REASON_NO_SESSION = 7,  /* the donor does not have the session to attach to */
	WIRE_REASON_REPLAY = 8,
	WIRE_REASON_LEAVING = 9,   /* the donor is shutting down */
	WIRE_REASON_DRAINING = 10, /* the donor is being emptied and grants no slab */
	WIRE_REASON_TAKEN = 11,    /* the claimed slab no longer belongs to the client */
	WIRE_REASON_ADMIN = 12,    /* the request needs the admin key */
	WIRE_REASON_COUNT
};
/* Returns a text such as "wrong key", in lower case, or "unknown reason". */
const char *wire_reason_name(unsigned reason);

/* The private data of a reject. */
struct wire_reject {
	uint16_t reason;
	uint16_t detail;
};

enum wire_type {
	WIRE_CHALLENGE = 1, /* donor -> client */
	WIRE_PROOF,         /* client -> donor */
	WIRE_WELCOME,       /* donor -> client */
	WIRE_REFUSED,       /* donor -> client */
	WIRE_LEASE,         /* client -> donor: asks for one more slab */
	WIRE_GRANTED,
	WIRE_DENIED,
	WIRE_RELEASE, /* client -> donor: gives a slab back */
	WIRE_RELEASED,
	WIRE_STATUS, /* client -> donor */
	WIRE_STATUS_REPLY,
	WIRE_PING,
	WIRE_PONG,
	WIRE_BYE,     /* client -> donor: ends the session and all its leases, now */
	WIRE_CLAIM,   /* client -> donor: names a slab that the client holds (answer: GRANTED or DENIED) */
	WIRE_CLAIMED, /* client -> donor: all slabs have been claimed (no answer) */
	WIRE_REVOKE,  /* donor -> client: move this slab by the deadline and release it (repeated after a CLAIM) */
	WIRE_REVOKED, /* donor -> client: the deadline has passed, and the slab is being taken */
	WIRE_KEEP,    /* donor -> client: cancels the REVOKE of this slab */
	WIRE_WARM,    /* client -> donor: how much slabs are used (no answer) */
	WIRE_DRAIN,   /* operator -> donor: answered by DRAINING */
	WIRE_DRAINING,
	WIRE_HOLDER, /* operator -> donor: asks for the next client that leases slabs (answer: HOLDER_REPLY) */
	WIRE_HOLDER_REPLY,
	WIRE_SUSPEND, /* both ways: this connection ends, the sender lives, and leases wait grace_ms (no answer) */
	WIRE_TYPE_COUNT
};
const char *wire_type_name(unsigned type);

/* If and how a donor lends. The numbers are part of the wire. */
enum wire_state {
	WIRE_STATE_LENDING = 0,
	WIRE_STATE_SHRINKING = 1, /* the donor's machine is short of memory, or was recently */
	WIRE_STATE_DRAINING = 2,  /* the donor grants no slab and recalls all */
	WIRE_STATE_COUNT
};

/* The action that a DRAIN asks for. The numbers are part of the wire. */
enum wire_drain {
	WIRE_DRAIN_ASK = 0,   /* only asks for the progress of a drain */
	WIRE_DRAIN_WAIT = 1,  /* recalls all slabs, and waits until clients have released them */
	WIRE_DRAIN_FORCE = 2, /* the same, and takes the remaining slabs at the deadline */
	WIRE_DRAIN_END = 3,   /* lend again */
	WIRE_DRAIN_COUNT
};

/* Returns true if @name is allowed for a failure domain: 1 to 31 letters, digits, or any of "._-". */
bool wire_failure_domain_is_valid(const char *name);

/*
 * How much a donor has and lends, in bytes. GRANTED, DENIED, RELEASED, REVOKE and REVOKED also have these figures, so
 * that clients place slabs well. `donated` is the most that the donor lends at present. It shrinks and grows with the
 * memory that the donor's machine can spare.
 */
struct wire_capacity {
	uint64_t donated, leased;
	uint64_t slab_bytes;
	uint32_t clients;
	uint32_t state; /* enum wire_state */
};

struct wire_message {
	uint16_t type;    /* enum wire_type */
	uint32_t request; /* echoed in the answer, or 0 if there is none */
	union {
		struct {
			uint8_t nonce[WIRE_NONCE_SIZE];
			uint8_t needs_key;
		} challenge;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint8_t has_key;
			uint32_t grace_ms;  /* wished life of leases after the client fell silent or said SUSPEND */
			uint32_t closed_ms; /* wished life of leases after the client's end closed the connection */
		} proof;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint32_t grace_ms, heartbeat_ms;
			uint64_t incarnation; /* random, and the same until the donor's program restarts */
			uint32_t slabs;       /* slabs that this client id holds already */
			struct wire_capacity capacity;
			char failure_domain
			    [WIRE_FAILURE_DOMAIN_SIZE]; /* the donor's failure domain, 0-terminated, or "" for none */
		} welcome;
		struct {
			uint16_t reason;
		} refused;
		struct {
			uint64_t slab;
			uint64_t address;
			uint64_t bytes;
			uint32_t rkey;
			struct wire_capacity capacity;
		} granted;
		struct {
			uint16_t reason;
			struct wire_capacity capacity;
		} denied;
		struct {
			uint64_t slab;
		} release, claim, keep;
		struct {
			uint64_t slab;
			struct wire_capacity capacity;
		} released;
		struct {
			struct wire_capacity capacity;
		} status_reply;
		struct {
			uint64_t slab;
			uint32_t deadline_ms; /* time left until the deadline, or WIRE_NO_DEADLINE */
			struct wire_capacity capacity;
		} revoke;
		struct {
			uint64_t slab;
			struct wire_capacity capacity;
		} revoked;
		struct {
			struct {
				uint64_t slab;   /* 0 for none: no slab has this name */
				uint32_t warmth; /* about how many pages are read or written per second */
			} of[WIRE_WARM_SLABS];
		} warm;
		struct {
			uint32_t what;        /* enum wire_drain */
			uint32_t deadline_ms; /* FORCE: time within which the donor has its memory back */
		} drain;
		struct {
			uint32_t slabs;   /* slabs that have memory, leased or not */
			uint32_t holders; /* clients that lease slabs */
			uint32_t left_ms; /* time until the last slab is taken, or WIRE_NO_DEADLINE */
			struct wire_capacity capacity;
		} draining;
		struct {
			uint32_t from; /* 0 at first, then the last HOLDER_REPLY's `next` */
		} holder;
		struct {
			uint32_t next;                /* `from` of the next HOLDER, or 0 if this reply has no client */
			uint32_t slabs;               /* slabs that this client leases */
			uint8_t away;                 /* 1 if the client has vanished and its leases will end */
			uint8_t name[WIRE_NAME_SIZE]; /* beginning of the client's id, which is secret as a whole */
			char peer[WIRE_ADDRESS_SIZE]; /* the client's address: printable, 0-terminated */
		} holder_reply;
	};
};

/* Encode a value of the types above. Encoding cannot fail. Return the number of bytes written, at most the array's
   size. */
size_t wire_encode_hello(const struct wire_hello *hello, uint8_t bytes[WIRE_HELLO_SIZE]);
size_t wire_encode_reject(const struct wire_reject *reject, uint8_t bytes[WIRE_REJECT_SIZE]);
size_t wire_encode(const struct wire_message *message, uint8_t bytes[WIRE_MESSAGE_MAX]);

/*
 * Decode any bytes. Return 0, or -EPROTO for a wrong magic, size or type, a reserved byte that is not zero, or a field
 * out of range. wire_decode_hello() returns -EPROTONOSUPPORT for another version. It then writes only
 * ret_hello->version, and looks at no byte behind the version, because another version may have another layout.
 */
int wire_decode_hello(const void *bytes, size_t size, struct wire_hello *ret_hello);
int wire_decode_reject(const void *bytes, size_t size, struct wire_reject *ret_reject);
int wire_decode(const void *bytes, size_t size, struct wire_message *ret_message);

#endif
