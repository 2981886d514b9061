/*
 * wire: everything two farpage processes say to each other besides pages, and the one validator for it.
 *
 * Theory of operation. A client opens one *session* with each donor and any number of *data connections* that
 * attach to it.
 *
 *   session:  connect, private data = hello{SESSION, client id, client nonce}
 *             donor -> CHALLENGE{donor nonce, needs key}; client -> PROOF{mac}; donor -> WELCOME{mac, capacity}
 *             or REFUSED{reason}. Each side proves that it knows the key (common/auth.h); from key and both nonces
 *             they derive the session key. From PROOF and WELCOME on every message is followed by a MAC under it
 *             (common/channel.h); only a REFUSED for a wrong key is not.
 *   data:     connect, private data = hello{ATTACH, client id, counter, mac under the session key}. A counter is
 *             never accepted twice, so nothing can be replayed. The donor accepts such a connection into the
 *             session's protection domain, at once, or rejects it: no rkey of one client works for another.
 *
 * Leases are asked for and given back on the session connection; the answer carries the request's id. Either side
 * sends PING when it has been silent for a heartbeat; any message counts as a sign of life.
 *
 * A client whose connections broke comes back with a new session under its old id. WELCOME says which start of the
 * donor's program this is and how many slabs the id holds. The client then CLAIMs each slab that it knows of, which is
 * answered like a LEASE (with another device in between, the rkey is another), and says CLAIMED: what it has not
 * claimed, because a grant or a release was lost on the way, is the donor's again. A claim of what the donor has taken
 * back meanwhile is DENIED with WIRE_REASON_TAKEN, and only that slab is lost.
 *
 * A donor that needs its memory itself says REVOKE{slab, deadline}: the client moves what is there elsewhere and
 * RELEASEs the slab. When the deadline has passed the client must not use it any more; a little later the donor says
 * REVOKED and takes it: first its key is dead, then its memory is gone. KEEP takes a REVOKE back. So that the least
 * used slabs are chosen a client may tell how WARM its slabs are. An operator's client may DRAIN a donor, which is a
 * REVOKE of everything, and ask for the HOLDERs of what is still leased; by force only with the admin key.
 *
 * A client whose process ends says nothing, its kernel closes its connections; one that hangs up because the donor does
 * not seem to answer says SUSPEND first, and its slabs wait for it much longer (PROOF: grace_ms, closed_ms). It claims
 * no more than PROOF may wish for.
 *
 * WELCOME also names the donor's failure domain, a rack say, if its operator has: replicas of a page do not share one.
 *
 * All integers are little-endian. A message is a header and a body of a size fixed by its type; wire_decode()
 * checks all of it, and nothing else in farpage looks at raw bytes of a peer.
 */
#ifndef FARPAGE_WIRE_H
#define FARPAGE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x31475046u /* "FPG1" */
#define WIRE_VERSION 6u
#define WIRE_DEFAULT_PORT 7470u
#define WIRE_ID_SIZE 16u
#define WIRE_NONCE_SIZE 16u
#define WIRE_NAME_SIZE 4u
#define WIRE_MAC_SIZE 32u
#define WIRE_ATTACH_MAC_SIZE 16u
#define WIRE_HELLO_SIZE 56u /* = FABRIC_PRIVATE_MAX */
#define WIRE_REJECT_SIZE 8u
#define WIRE_MESSAGE_MAX 240u
#define WIRE_SEAL_SIZE 16u   /* of the MAC behind a session's messages */
#define WIRE_SEALED_MAX 256u /* = FABRIC_MESSAGE_MAX */
#define WIRE_PEER_SIZE 64u   /* an address as text, shortened if need be, with at least one 0 after it */
#define WIRE_DOMAIN_SIZE 32u /* a failure domain's name and at least one 0 after it */
#define WIRE_WARM_SLABS 16u  /* slabs in one WARM */
#define WIRE_NO_DEADLINE UINT32_MAX

enum wire_role { WIRE_SESSION = 1, WIRE_ATTACH = 2 };

/* The private data of a connect. */
struct wire_hello {
	uint16_t version;
	uint8_t role;                      /* enum wire_role */
	uint8_t id[WIRE_ID_SIZE];          /* the client's id: random, new for each store it opens */
	uint8_t nonce[WIRE_NONCE_SIZE];    /* SESSION: the client's nonce */
	uint64_t counter;                  /* ATTACH: greater than any before */
	uint8_t mac[WIRE_ATTACH_MAC_SIZE]; /* ATTACH: auth_attach_mac() */
};

/* Why a donor says no. Part of the wire: never renumber. */
enum wire_reason {
	WIRE_REASON_NONE = 0,
	WIRE_REASON_VERSION = 1, /* detail: the donor's version */
	WIRE_REASON_MALFORMED = 2,
	WIRE_REASON_KEY = 3,         /* wrong key */
	WIRE_REASON_KEY_NEEDED = 4,  /* the donor has a key, the client has none */
	WIRE_REASON_KEY_UNKNOWN = 5, /* the client has a key, the donor has none */
	WIRE_REASON_FULL = 6,        /* too many clients, or no free slab */
	WIRE_REASON_NO_SESSION = 7,  /* attach to a session the donor does not have */
	WIRE_REASON_REPLAY = 8,
	WIRE_REASON_LEAVING = 9,   /* the donor is shutting down */
	WIRE_REASON_DRAINING = 10, /* it is being emptied: nothing new */
	WIRE_REASON_TAKEN = 11,    /* the slab claimed is not the client's any more */
	WIRE_REASON_ADMIN = 12,    /* only the admin key carries the right to do that */
	WIRE_REASON_COUNT
};
/* "wrong key": lower case, no full stop; "unknown reason" for anything else. */
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
	WIRE_LEASE,         /* client -> donor: one more slab, please */
	WIRE_GRANTED,
	WIRE_DENIED,
	WIRE_RELEASE, /* client -> donor: take this slab back */
	WIRE_RELEASED,
	WIRE_STATUS, /* client -> donor */
	WIRE_STATUS_REPLY,
	WIRE_PING,
	WIRE_PONG,
	WIRE_BYE,     /* client -> donor: end of session, all leases with it, now */
	WIRE_CLAIM,   /* client -> donor: this slab is mine; answered by GRANTED or DENIED */
	WIRE_CLAIMED, /* client -> donor: these were all; not answered */
	WIRE_REVOKE,  /* donor -> client: move this slab away until then, and release it; said again with a later CLAIM
		       */
	WIRE_REVOKED, /* donor -> client: the deadline has passed, the slab is being taken */
	WIRE_KEEP,    /* donor -> client: the REVOKE of this slab is taken back */
	WIRE_WARM,    /* client -> donor: how much its slabs are used; not answered */
	WIRE_DRAIN,   /* operator -> donor: answered by DRAINING */
	WIRE_DRAINING,
	WIRE_HOLDER, /* operator -> donor: who leases slabs, from this place on; answered by HOLDER_REPLY */
	WIRE_HOLDER_REPLY,
	WIRE_SUSPEND, /* client -> donor: this connection ends, its client lives: leases wait for grace_ms; not answered
		       */
	WIRE_TYPE_COUNT
};
const char *wire_type_name(unsigned type);

/* Whether a donor lends. Part of the wire. */
enum wire_state {
	WIRE_STATE_LENDING = 0,
	WIRE_STATE_SHRINKING = 1, /* its machine is short of memory, or was lately */
	WIRE_STATE_DRAINING = 2,  /* nothing new, and everything is to go */
	WIRE_STATE_COUNT
};

/* What a DRAIN is to do. Part of the wire. */
enum wire_drain {
	WIRE_DRAIN_ASK = 0,   /* nothing: how far it is */
	WIRE_DRAIN_WAIT = 1,  /* revoke all, and wait until clients have released it */
	WIRE_DRAIN_FORCE = 2, /* the same, and take what is left at the deadline */
	WIRE_DRAIN_END = 3,   /* lend again */
	WIRE_DRAIN_COUNT
};

/* Whether a failure domain may have this name: 1 to 31 letters, digits, and of . _ - */
bool wire_domain_is_good(const char *name);

/*
 * What a donor has, in bytes; also carried by GRANTED, DENIED, RELEASED, REVOKE and REVOKED so that clients place well.
 * `donated` is what it lends at most at present: it shrinks and grows with what the donor's machine can spare.
 */
struct wire_capacity {
	uint64_t donated, leased;
	uint64_t slab_bytes;
	uint32_t clients;
	uint32_t state; /* enum wire_state */
};

struct wire_message {
	uint16_t type;    /* enum wire_type */
	uint32_t request; /* echoed in the answer; 0 where there is none */
	union {
		struct {
			uint8_t nonce[WIRE_NONCE_SIZE];
			uint8_t needs_key;
		} challenge;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint8_t has_key;
			uint32_t grace_ms;  /* wished: lease life after the client fell silent, or said SUSPEND */
			uint32_t closed_ms; /* and after its end closed the connection: its process may have ended */
		} proof;
		struct {
			uint8_t mac[WIRE_MAC_SIZE];
			uint32_t grace_ms, heartbeat_ms;
			uint64_t incarnation; /* random, of this start of the donor's program */
			uint32_t slabs;       /* that this id holds already */
			struct wire_capacity capacity;
			char domain[WIRE_DOMAIN_SIZE]; /* the donor's failure domain: plain, 0-terminated; "": none */
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
			uint32_t deadline_ms; /* from now, or WIRE_NO_DEADLINE: when it suits */
			struct wire_capacity capacity;
		} revoke;
		struct {
			uint64_t slab;
			struct wire_capacity capacity;
		} revoked;
		struct {
			struct {
				uint64_t slab;   /* 0: none; no slab has this name */
				uint32_t warmth; /* pages read or written a second, about */
			} of[WIRE_WARM_SLABS];
		} warm;
		struct {
			uint32_t what;        /* enum wire_drain */
			uint32_t deadline_ms; /* FORCE: the memory is back by then */
		} drain;
		struct {
			uint32_t slabs;   /* that have memory, whoever holds them */
			uint32_t holders; /* clients that lease some */
			uint32_t left_ms; /* until the last of them is taken, or WIRE_NO_DEADLINE */
			struct wire_capacity capacity;
		} draining;
		struct {
			uint32_t from; /* 0, later a HOLDER_REPLY's next */
		} holder;
		struct {
			uint32_t next;                /* where to go on; 0: there is no further one, nor is this */
			uint32_t slabs;               /* that it leases */
			uint8_t away;                 /* it has vanished, its leases end if it does not come back */
			uint8_t name[WIRE_NAME_SIZE]; /* the beginning of its id; the whole is nobody else's business */
			char peer[WIRE_PEER_SIZE];    /* where it came from: printable, 0-terminated */
		} holder_reply;
	};
};

/* Encoders cannot fail on values of the types above. Return the number of bytes written (at most the sizes above). */
size_t wire_encode_hello(const struct wire_hello *hello, uint8_t bytes[WIRE_HELLO_SIZE]);
size_t wire_encode_reject(const struct wire_reject *reject, uint8_t bytes[WIRE_REJECT_SIZE]);
size_t wire_encode(const struct wire_message *message, uint8_t bytes[WIRE_MESSAGE_MAX]);

/*
 * Decoders take any bytes. 0, or -EPROTO: wrong magic, size, type, a reserved byte not zero, a field out of range.
 * wire_decode_hello: -EPROTONOSUPPORT for another version (ret_hello->version alone is then written; nothing after
 * the version is looked at, for another version may lay it out differently).
 */
int wire_decode_hello(const void *bytes, size_t size, struct wire_hello *ret_hello);
int wire_decode_reject(const void *bytes, size_t size, struct wire_reject *ret_reject);
int wire_decode(const void *bytes, size_t size, struct wire_message *ret_message);

#endif
