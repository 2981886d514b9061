/*
 * client: the least that can talk to a donor, step by step, over fabric.h. Every step waits for its answer; failures
 * of the transport are returned as -errno, a donor's no as a positive wire_reason. One thread.
 */
#ifndef TESTS_FUNC_MEMSERVER_CLIENT_H
#define TESTS_FUNC_MEMSERVER_CLIENT_H

#include "common/channel.h"
#include "farpage/fabric.h"
#include "farpage/wire.h"

#define CLIENT_BUFFER (1u << 20)
#define CLIENT_NOTICES 256u

struct client {
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct fabric_region *region;
	char *buffer; /* CLIENT_BUFFER bytes, registered */
	char uri[64];
	const uint8_t *key;
	uint32_t wished_grace_ms, wished_closed_ms; /* the latter 0: the same */
	uint8_t id[WIRE_ID_SIZE], session_key[AUTH_KEY_SIZE];
	struct channel channel;    /* of the session's connection */
	struct wire_message heard; /* last, */
	int heard_status;          /* unless it cannot be understood */
	uint64_t counter;
	uint32_t request;
	struct fabric_conn *session, *data; /* NULL while there is none */
	struct wire_message welcome;
	struct wire_message notices[CLIENT_NOTICES]; /* REVOKE, REVOKED and KEEP, as they came */
	unsigned notice_count;
	int session_end; /* status with which the session ended; 0: it has not */
};

/* @name makes the id. Opens nothing on the network. */
void client_init(struct client *client, const char *uri, const uint8_t *key, const char *name);
/* Ends it as a crash would: no goodbye. */
void client_close(struct client *client);

/* The handshake. 0, a wire_reason, or -errno. */
int client_come(struct client *client);
/* A data connection; ends the one before. @counter 0: the next one. */
int client_attach(struct client *client, uint64_t counter);
/* 0 and the grant; or a wire_reason, or -errno. */
int client_lease(struct client *client, struct wire_message *ret_granted);
int client_release(struct client *client, uint64_t slab);
int client_status(struct client *client, struct wire_capacity *ret_capacity);
void client_bye(struct client *client);
/* Says that it hangs up but lives, and hangs up. */
void client_suspend(struct client *client);

/* One operation on the data connection, with the first @length bytes of the buffer. 0 or -errno. */
int client_read(struct client *client, uint64_t address, uint32_t rkey, uint32_t length);
int client_write(struct client *client, uint64_t address, uint32_t rkey, uint32_t length);

/* Sends a DRAIN, and the answer. 0, or -errno. */
int client_drain(struct client *client, enum wire_drain what, uint32_t deadline_ms, struct wire_message *ret_draining);
/* Who holds what, from a place on. */
int client_holder(struct client *client, uint32_t from, struct wire_message *ret_holder);
int client_claim(struct client *client, uint64_t slab, struct wire_message *ret_granted);

/* Waits until so many notices of this type have come in all. */
bool client_wait_notices(struct client *client, enum wire_type type, unsigned count);
unsigned client_notices(const struct client *client, enum wire_type type);
/* Whether the last notice about this slab was of this type. */
bool client_noticed(const struct client *client, enum wire_type type, uint64_t slab);

/* Asks until the donor has @leased bytes leased and @clients clients. */
bool client_wait_capacity(struct client *client, uint64_t leased, unsigned clients);
/* Waits until the session or data connection has ended by the donor's doing. */
bool client_wait_end(struct client *client, struct fabric_conn *conn);
/* Sends raw bytes as a message. */
/* A message without a body, as it would be sent next: returns its size. */
size_t client_seal(struct client *client, enum wire_type type, uint8_t bytes[WIRE_SEALED_MAX]);
void client_send_raw(struct client *client, struct fabric_conn *conn, const void *bytes, size_t size);

#endif
