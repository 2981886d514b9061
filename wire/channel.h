/*
 * channel: one end of a session's connection, from the moment when both sides have the session key. Each message is
 * followed by a MAC under the session key. It covers the sender's role, the sender's message counter, and the message.
 *
 * The receiver accepts only the sender's next message. The receiver rejects a message that was forged, changed, cut,
 * repeated or reordered, or that follows a skipped one. A connection by itself neither loses nor reorders messages, and
 * every session has its own key (auth.h). So any other message is an attack or a bug, and ends the connection.
 *
 * The MAC is keyed BLAKE2b, as for the proofs in auth.h.
 *
 * Threads: the owner of the connection.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include "wire/auth.h"

struct channel {
	uint8_t key[AUTH_KEY_SIZE];
	bool client; /* this end's role */
	bool begun;
	uint64_t said, heard; /* messages sent and received since channel_begin() */
};

/* Starts the channel: from now on, every message in both directions has a MAC. */
void channel_begin(struct channel *channel, const uint8_t session_key[AUTH_KEY_SIZE], bool client);
/* Appends the MAC to the message of @size bytes in @bytes. Returns the size of message and MAC. Before channel_begin(),
   it changes nothing and returns @size. */
size_t channel_seal(struct channel *channel, uint8_t bytes[WIRE_SEALED_MAX], size_t size);
/* Verifies the MAC at the end of @bytes. Returns the size of the message without its MAC, or -EBADMSG if it is not the
   other side's next message. Before channel_begin(), it verifies nothing and returns @size. */
int channel_open(struct channel *channel, const void *bytes, size_t size);

#endif
