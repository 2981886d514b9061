/*
 * channel: one end of a session's connection once both sides can have its key: each message is followed by a MAC under
 * the session key, over which side says it, the how-manieth of that side it is, and its bytes.
 *
 * So a message that was forged, changed, cut, sent twice, left out or taken out of its order is not the next one. A
 * connection loses and reorders nothing by itself, and every session has another key (auth.h): whatever is not the next
 * one is an attack, or a mistake, and ends the connection.
 *
 * Keyed BLAKE2b, as the proofs are. Threads. The owner of the connection.
 */
#ifndef COMMON_CHANNEL_H
#define COMMON_CHANNEL_H

#include "common/auth.h"

struct channel {
	uint8_t key[AUTH_KEY_SIZE];
	bool client; /* this end */
	bool begun;
	uint64_t said, heard; /* messages */
};

/* From here on everything is followed by a MAC. */
void channel_begin(struct channel *channel, const uint8_t session_key[AUTH_KEY_SIZE], bool client);
/* Puts the MAC behind the message; returns the size of both. One that has not begun: @size. */
size_t channel_seal(struct channel *channel, uint8_t bytes[WIRE_SEALED_MAX], size_t size);
/* The size of the message without its MAC; -EBADMSG: it is not the other side's next. One that has not begun: @size. */
int channel_open(struct channel *channel, const void *bytes, size_t size);

#endif
