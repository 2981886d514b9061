/*
 * client: a minimal client of a donor over fabric.h, for tests. Each call is one step of the protocol and waits for the
 * donor's answer. Calls return -errno if the transport fails, and a positive wire_reason if the donor refuses. All
 * calls come from one thread.
 */
#ifndef TESTS_FUNC_MEMSERVER_CLIENT_H
#define TESTS_FUNC_MEMSERVER_CLIENT_H

#include "fabric/fabric.h"
#include "tests/lib/donor.h"
#include "wire/channel.h"
#include "wire/wire.h"

#define CLIENT_BUFFER (1u << 20)
#define CLIENT_NOTICES 256u

struct client {
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct fabric_region *region;
	char *buffer; /* CLIENT_BUFFER bytes, registered */
	char uri[64];
	const uint8_t *key;
	uint32_t wished_grace_ms, wished_closed_ms; /* wished_closed_ms 0 means wished_grace_ms */
	struct wire_about about;                    /* what it says about itself; client_init() says nothing */
	uint8_t id[WIRE_ID_SIZE], session_key[AUTH_KEY_SIZE];
	struct channel channel;    /* the channel of the session's connection */
	struct wire_message heard; /* the last message */
	int heard_status;          /* -errno if the last message cannot be decoded */
	uint64_t counter;
	uint32_t request;
	struct fabric_conn *session, *data; /* NULL if not connected */
	struct wire_message welcome;
	struct wire_message notices[CLIENT_NOTICES]; /* REVOKE, REVOKED, KEEP and SUSPEND, in order of arrival */
	unsigned notice_count;
	int session_end; /* status with which the session ended, or 0 if it has not */
};

/* Initializes the client. @name becomes its id. Opens nothing on the network. */
void client_init(struct client *client, const char *uri, const uint8_t *key, const char *name);
/* Ends the client without a goodbye, as a crash would. */
void client_close(struct client *client);

/* Initializes the client and opens its session connection. Returns the same as client_come(). */
int client_enter(struct client *client, const struct donor_process *donor, const uint8_t *key, const char *name);
/* Does the same for a client that ends at once. */
int client_visit(const struct donor_process *donor, const uint8_t *key, const char *name);
/* Initializes the client, without a key, and opens both its connections to the donor. Bails out if that fails. */
void client_arrive(struct client *client, const struct donor_process *donor, const char *name);
/* Says goodbye, waits until the donor has ended the session, and ends the client. */
void client_leave(struct client *client);

/* Opens the session connection and does the handshake. Returns 0, a wire_reason, or -errno. */
int client_come(struct client *client);
/* Opens a data connection and ends the previous one. @counter 0 stands for the next counter. */
int client_attach(struct client *client, uint64_t counter);
/* Leases a slab. Returns 0 and the grant, a wire_reason, or -errno. */
int client_lease(struct client *client, struct wire_message *ret_granted);
int client_release(struct client *client, uint64_t slab);
int client_status(struct client *client, struct wire_capacity *ret_capacity);
void client_bye(struct client *client);
/* Tells the donor that the client lives, hangs up, and closes the client. */
void client_suspend(struct client *client);

/* Does one operation on the data connection, with the first @length bytes of the buffer. Returns 0 or -errno. */
int client_read(struct client *client, uint64_t address, uint32_t rkey, uint32_t length);
int client_write(struct client *client, uint64_t address, uint32_t rkey, uint32_t length);
/* Does the same at the beginning of a granted slab. */
int client_get(struct client *client, const struct wire_message *grant, uint32_t length);
int client_put(struct client *client, const struct wire_message *grant, uint32_t length);

/* Sends a DRAIN and waits for the answer. Returns 0, a wire_reason, or -errno. */
int client_drain(struct client *client, enum wire_drain what, uint32_t deadline_ms, struct wire_message *ret_draining);
/* Asks for the holder at @from in the donor's list. The reply has that holder and the next place. */
int client_holder(struct client *client, uint32_t from, struct wire_message *ret_holder);
int client_claim(struct client *client, uint64_t slab, struct wire_message *ret_granted);

/* Waits until @count notices of @type have come since notice_count was zero. Returns false if they have not. */
bool client_wait_notices(struct client *client, enum wire_type type, unsigned count);
unsigned client_notices(const struct client *client, enum wire_type type);
/* Returns true if the last notice about @slab was of @type. */
bool client_noticed(const struct client *client, enum wire_type type, uint64_t slab);

/* Asks until the donor has @leased bytes leased and @clients clients. Returns false if that takes too long. */
bool client_wait_capacity(struct client *client, uint64_t leased, unsigned clients);
/* Waits until the donor has ended @conn, a session or data connection. Returns false if that takes too long. */
bool client_wait_end(struct client *client, struct fabric_conn *conn);
/* Seals a message without a body as the next message of the session. Returns its size. */
size_t client_seal(struct client *client, enum wire_type type, uint8_t bytes[WIRE_SEALED_MAX]);
/* Sends raw bytes as a message. */
void client_send_raw(struct client *client, struct fabric_conn *conn, const void *bytes, size_t size);

#endif
