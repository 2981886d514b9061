/*
 * wire: encodes and decodes all messages between two farpage processes, and checks received ones. Pages are not
 * messages: the fabric carries them.
 *
 * Theory of operation. First, a client opens a *session* with each donor:
 *
 *     client  connects with private data hello{SESSION, client id, client nonce}
 *     donor   sends CHALLENGE{donor nonce, needs key}
 *     client  sends PROOF{mac}
 *     donor   sends WELCOME{mac, capacity} or REFUSED{reason}
 *
 * By the two MACs, each side proves that it knows the pre-shared key. From the key and both nonces, both sides derive
 * the session key (wire/auth.h). From PROOF and WELCOME on, a MAC under the session key follows every message
 * (wire/channel.h). Only a REFUSED for a wrong key has no MAC, because the sides then have no common key.
 *
 * Next, the client opens *data connections*, over which it reads and writes pages:
 *
 *     client  connects with private data hello{ATTACH, client id, counter, mac under the session key}
 *     donor   accepts the connection into the session's protection domain, or rejects it
 *
 * The donor accepts each counter only once, so a recorded hello cannot be used again. Each session has a protection
 * domain of its own, so the rkey of one client is useless to other clients.
 *
 * Leases. On the session, a client requests slabs (LEASE) and gives them back (RELEASE). An answer repeats the number
 * of its request. A side that has sent nothing for a heartbeat sends PING. Any message proves that its sender is
 * alive.
 *
 * Reconnecting. A client whose connections broke opens a new session with its old client id:
 *
 * - WELCOME says how many slabs the donor has leased to this id. It also has the donor's incarnation, which shows
 *   whether the donor's program was restarted.
 * - The client sends a CLAIM for each slab that it knows. The answer is the same as for a LEASE, because the slab has
 *   another rkey if the new session runs over another RDMA device. If the donor has revoked the slab in the meantime,
 *   it answers DENIED with WIRE_REASON_TAKEN, and only this slab is lost.
 * - After its last CLAIM, the client sends CLAIMED. The donor then frees the slabs of this client that were not
 *   claimed. Such slabs exist if a GRANTED or a RELEASE was lost.
 *
 * Recalls. A donor that needs memory sends REVOKE{slab, deadline}. The client copies the slab's pages elsewhere, and
 * sends RELEASE. At the deadline, the client stops using the slab. A little later, the donor sends REVOKED,
 * invalidates the slab's rkey, and frees its memory. If the donor no longer needs the memory, it cancels the recall
 * by KEEP. With WARM, a client reports how often its slabs are used, so that donors recall the least used slabs
 * first.
 *
 * Draining. An operator's program (`farpage donors`) sends DRAIN to make a donor recall all slabs, and HOLDER to list
 * the clients that lease slabs. If the donor has an admin key, only a client with this key may drain the donor or
 * list its clients. If the donor has keys but no admin key, every client may do both, but no client may drain by
 * force.
 *
 * Names of clients. In PROOF, a client says which process of which user it is (struct wire_about). The donor passes
 * these texts on in HOLDER_REPLY, and writes them to its log, so that operators know whom to ask. A client may lie
 * here, so donors base no decision on these texts. The texts are printable, so they cannot forge a line of a log, or
 * control a terminal. The client has proved only its key, and HOLDER_REPLY has the name of this key, too.
 *
 * Ending. If a client's process ends, its kernel closes the connections. The donor frees the leases after a short
 * time (closed_ms in PROOF). If a client closes its connections because the donor does not answer, it sends SUSPEND
 * first. The donor then waits longer for the client's return (grace_ms in PROOF).
 *
 * Upgrading. A donor whose program is about to be replaced sends SUSPEND to its clients. They close their connections
 * and reconnect. The next program has the same incarnation and the same leases. Until it listens, the donor's machine
 * refuses connections. Because of SUSPEND, clients do not conclude from this that the donor's memory is gone.
 *
 * Failure domains. WELCOME has the name of the donor's failure domain, such as a rack, if its operator has set one.
 * Clients place the replicas of a page in different failure domains.
 *
 * All integers are little-endian. A message is a header, and a body whose size depends only on the type.
 * wire_decode(), wire_decode_hello() and wire_decode_reject() check every field. No other code reads raw bytes of a
 * peer's messages.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x31475046u /* "FPG1" */
#define WIRE_VERSION 7u
#define WIRE_ID_SIZE 16u
#define WIRE_NONCE_SIZE 16u
#define WIRE_NAME_SIZE 4u
#define WIRE_MAC_SIZE 32u
#define WIRE_ATTACH_MAC_SIZE 16u
#define WIRE_HELLO_SIZE 56u /* = FABRIC_PRIVATE_MAX */
#define WIRE_REJECT_SIZE 8u
#define WIRE_MESSAGE_MAX 240u
#define WIRE_SEAL_SIZE 16u           /* the MAC that follows each message of a session */
#define WIRE_SEALED_MAX 256u         /* = FABRIC_MESSAGE_MAX */
#define WIRE_ADDRESS_SIZE 64u        /* an address as text, cut if it is longer, with at least one 0 byte at the end */
#define WIRE_FAILURE_DOMAIN_SIZE 32u /* a failure domain's name, with at least one 0 byte at the end */
#define WIRE_KEY_NAME_SIZE 32u       /* the name of a donor's key, with at least one 0 byte at the end */
#define WIRE_WARM_SLABS 16u          /* slabs in one WARM */
#define WIRE_NO_DEADLINE UINT32_MAX

enum wire_role { WIRE_SESSION = 1, WIRE_ATTACH = 2 };

/* The private data of a connect. */
struct wire_hello {
	uint16_t version;
	uint8_t role;                   /* enum wire_role */
	uint8_t id[WIRE_ID_SIZE];       /* random, and different for each store */
	uint8_t nonce[WIRE_NONCE_SIZE]; /* SESSION: the client's nonce */
	/* ATTACH: greater than all counters that this client has used in the session. */
	uint64_t counter;
	uint8_t mac[WIRE_ATTACH_MAC_SIZE]; /* ATTACH: auth_attach_mac() */
};

/* The reasons of a refusal. Other versions must understand these numbers, too: never change them. */
enum wire_reason {
	WIRE_REASON_NONE = 0,
	WIRE_REASON_VERSION = 1, /* detail: the donor's version */
	WIRE_REASON_MALFORMED = 2,
	WIRE_REASON_KEY = 3,
	WIRE_REASON_KEY_NEEDED = 4,  /* the donor has a key, the client has none */
	WIRE_REASON_KEY_UNKNOWN = 5, /* the client has a key, the donor has none */
	WIRE_REASON_FULL = 6,        /* too many clients, or no free slab */
	WIRE_REASON_NO_SESSION = 7,  /* the donor has no session with this client id */
	WIRE_REASON_REPLAY = 8,
	WIRE_REASON_LEAVING = 9,   /* the donor is shutting down */
	WIRE_REASON_DRAINING = 10, /* the donor is being emptied and grants no slab */
	WIRE_REASON_TAKEN = 11,    /* the claimed slab no longer belongs to the client */
	WIRE_REASON_ADMIN = 12,    /* the request needs the admin key */
	WIRE_REASON_COUNT
};
/* Returns a text for logs, such as "wrong key". Returns "unknown reason" for other numbers. */
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
	WIRE_CLAIM,   /* client -> donor: asks for a slab that it had leased (answer: GRANTED or DENIED) */
	WIRE_CLAIMED, /* client -> donor: all slabs have been claimed (no answer) */
	WIRE_REVOKE,  /* donor -> client: release this slab by the deadline (repeated after a CLAIM) */
	WIRE_REVOKED, /* donor -> client: the deadline has passed; the donor frees the slab */
	WIRE_KEEP,    /* donor -> client: cancels the REVOKE of this slab */
	WIRE_WARM,    /* client -> donor: how often slabs are used (no answer) */
	WIRE_DRAIN,   /* operator -> donor: begins, ends or asks about a drain (answer: DRAINING) */
	WIRE_DRAINING,
	WIRE_HOLDER, /* operator -> donor: asks for the next client that leases slabs (answer: HOLDER_REPLY) */
	WIRE_HOLDER_REPLY,
	/* both ways: the sender closes this connection but runs on; leases must last grace_ms (no answer) */
	WIRE_SUSPEND,
	WIRE_TYPE_COUNT
};
const char *wire_type_name(unsigned type);

/* The state of a donor. The numbers are part of the wire format. */
enum wire_state {
	WIRE_STATE_LENDING = 0,
	WIRE_STATE_SHRINKING = 1, /* the donor's machine is short of memory, or was recently */
	WIRE_STATE_DRAINING = 2,  /* the donor grants no slab, and recalls all */
	WIRE_STATE_CLEARING = 3,  /* no slab is free, but slabs are being cleared, and the donor will lend them again */
	WIRE_STATE_COUNT
};

/* The actions of a DRAIN. The numbers are part of the wire format. */
enum wire_drain {
	WIRE_DRAIN_ASK = 0,   /* no action: only asks for the progress of a drain */
	WIRE_DRAIN_WAIT = 1,  /* recall all slabs, and wait until clients have released them */
	WIRE_DRAIN_FORCE = 2, /* the same, but revoke the remaining slabs at the deadline */
	WIRE_DRAIN_END = 3,   /* end the drain: lend again */
	WIRE_DRAIN_COUNT
};

/* Returns true if @name is a valid name of a failure domain: 1 to 31 letters, digits, or any of "._-". */
bool wire_failure_domain_is_valid(const char *name);

/* The memory that a donor lends, in bytes. GRANTED, DENIED, RELEASED, REVOKE and REVOKED have these figures, too, so
   that clients know on which donor to place the next slab. `donated` is the most that the donor lends at present.
   This limit follows the memory that the donor's machine can spare. */
struct wire_capacity {
	uint64_t donated, leased; /* bytes; slabs that are being cleared are not leased */
	uint64_t slab_bytes;
	uint32_t clients;
	uint32_t state; /* enum wire_state */
};

/* A client's words about itself. Each text is printable ASCII, 0-terminated, and "" if the client does not know it. */
struct wire_about {
	char host[32];    /* name of the client's machine, cut if it is longer */
	char user[32];    /* name or number of the user */
	char command[48]; /* short name of the program, or "blockdev NAME" */
	uint32_t pid;     /* number of the process on its machine, or 0 if unknown */
};
/* Writes @about as a text for logs: "python3 (pid 4711) of alice on node7". Returns @text. */
#define WIRE_ABOUT_TEXT_MAX (sizeof(struct wire_about) + 32)
const char *wire_about_text(const struct wire_about *about, char text[WIRE_ABOUT_TEXT_MAX]);

struct wire_message {
	uint16_t type;    /* enum wire_type */
	uint32_t request; /* number of the request, repeated in its answer; 0 if there is no answer */
	union {
		struct {
			uint8_t nonce[WIRE_NONCE_SIZE];
			uint8_t needs_key;
		} challenge;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint8_t has_key;
			/* How long leases should last after the client fell silent or sent SUSPEND. */
			uint32_t grace_ms;
			uint32_t closed_ms; /* how long leases should last after the client has closed the connection */
			struct wire_about about;
		} proof;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint32_t grace_ms, heartbeat_ms;
			uint64_t incarnation; /* random, and constant until the donor's program restarts */
			uint32_t slabs;       /* number of slabs leased to this client id */
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
			uint32_t deadline_ms; /* time until the deadline, or WIRE_NO_DEADLINE */
			struct wire_capacity capacity;
		} revoke;
		struct {
			uint64_t slab;
			struct wire_capacity capacity;
		} revoked;
		struct {
			struct {
				uint64_t slab;   /* 0 for an unused entry: no slab has this id */
				uint32_t warmth; /* estimate of pages read or written per second */
			} of[WIRE_WARM_SLABS];
		} warm;
		struct {
			uint32_t what;        /* enum wire_drain */
			uint32_t deadline_ms; /* FORCE: time until the donor has all its memory back */
		} drain;
		struct {
			uint32_t slabs;   /* number of slabs with memory, leased or not */
			uint32_t holders; /* number of clients that lease slabs */
			uint32_t left_ms; /* time until the donor takes the last slab, or WIRE_NO_DEADLINE */
			struct wire_capacity capacity;
		} draining;
		struct {
			uint32_t from; /* 0 for the first client, then `next` of the last HOLDER_REPLY */
		} holder;
		struct {
			/* `from` for the next HOLDER; 0 if this reply has no client, because the list has ended */
			uint32_t next;
			uint32_t slabs; /* number of slabs that this client leases */
			/* 1 if the client is not connected, so its leases will end */
			uint8_t away;
			uint32_t held_s;              /* seconds since this client got its first slab */
			uint8_t name[WIRE_NAME_SIZE]; /* first bytes of the client's id; the whole id is secret */
			char peer[WIRE_ADDRESS_SIZE]; /* the client's address: printable, 0-terminated */
			char key[WIRE_KEY_NAME_SIZE]; /* name of the key that the client proved, or "" for none */
			struct wire_about about;      /* as in the client's last PROOF */
		} holder_reply;
	};
};

/* Encode a value. This cannot fail, because the caller has set valid values. Return the number of bytes written. */
size_t wire_encode_hello(const struct wire_hello *hello, uint8_t bytes[WIRE_HELLO_SIZE]);
size_t wire_encode_reject(const struct wire_reject *reject, uint8_t bytes[WIRE_REJECT_SIZE]);
size_t wire_encode(const struct wire_message *message, uint8_t bytes[WIRE_MESSAGE_MAX]);

/*
 * Decode bytes from a peer, which may have sent anything. Return 0, or -EPROTO for a wrong magic, size or type, a
 * reserved byte that is not 0, or a field out of range.
 *
 * wire_decode_hello() returns -EPROTONOSUPPORT for another version. In this case it writes only ret_hello->version.
 * It does not check the bytes after the version, because another version may have another layout.
 */
int wire_decode_hello(const void *bytes, size_t size, struct wire_hello *ret_hello);
int wire_decode_reject(const void *bytes, size_t size, struct wire_reject *ret_reject);
int wire_decode(const void *bytes, size_t size, struct wire_message *ret_message);

#endif
