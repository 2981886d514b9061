/*
 * channel: adds a MAC to each message that is sent in a session, and checks the MAC of each received message.
 *
 * Theory of operation. After the handshake, both ends have the session key and call channel_begin(). From then on,
 * the MAC of each message covers the sender's role, the number of messages that it has sent before, and the message.
 * So the receiver accepts only the sender's next message. It rejects a message that was forged, changed, cut,
 * repeated, reordered, or sent after a missing message. The transport itself neither loses nor reorders messages, and
 * every session has its own key. So a rejected message is an attack or a bug, and the owner ends the connection.
 *
 * Threads: the owner of the connection.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include "wire/auth.h"

struct channel {
	uint8_t key[AUTH_KEY_SIZE];
	bool client; /* true if this end is the client's */
	bool begun;
	uint64_t said, heard; /* messages sent and received since channel_begin() */
};

/* From now on, every message in both directions has a MAC. @client is true if this end is the client's. */
void channel_begin(struct channel *channel, const uint8_t session_key[AUTH_KEY_SIZE], bool client);
/* Appends the MAC to the message of @size bytes in @bytes. Returns the new size. Before channel_begin(), changes
   nothing and returns @size. */
size_t channel_seal(struct channel *channel, uint8_t bytes[WIRE_SEALED_MAX], size_t size);
/* Verifies the MAC at the end of @bytes. Returns the size of the message without the MAC, or -EBADMSG if this is not
   the other side's next message. Before channel_begin(), checks nothing and returns @size. */
int channel_open(struct channel *channel, const void *bytes, size_t size);

#endif
