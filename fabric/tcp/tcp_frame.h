/*
 * tcp_frame: the format of a tcp connection, and the functions that check received bytes.
 *
 * Theory of operation. First, each side sends one greeting: the connecting side CONNECT, the other side ACCEPT or
 * REJECT. After ACCEPT, both sides send frames. A frame is a header, followed in some types by `length` bytes of data:
 *
 *     READ     address, rkey, length, sequence     no data
 *     WRITE    address, rkey, length, sequence     the data to write
 *     DONE     status, sequence, length            the data that was read; none for a write or a refusal
 *     MESSAGE  length                              the message
 *
 * READ and WRITE are requests. Each side numbers its requests from 0 (mod 2^32), and the other side answers each one
 * by a DONE, in this order. A side never has more unanswered requests than the `depth` in its greeting. From this
 * limit, the other side knows how much memory it needs for answers. All numbers are little-endian.
 */
#ifndef FABRIC_TCP_FRAME_H
#define FABRIC_TCP_FRAME_H

#include "fabric/fabric.h"

#define TCP_MAGIC 0x43465046u /* "FPFC" */
#define TCP_VERSION 1u

enum tcp_greeting_kind { TCP_CONNECT = 1, TCP_ACCEPT, TCP_REJECT };

struct tcp_greeting {
	uint32_t magic;
	uint16_t version;
	uint8_t kind; /* enum tcp_greeting_kind */
	uint8_t private_size;
	uint16_t depth;
	uint16_t zero;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
_Static_assert(sizeof(struct tcp_greeting) == 68, "no padding");

enum tcp_frame_type { TCP_READ = 1, TCP_WRITE, TCP_DONE, TCP_MESSAGE };
enum tcp_status { TCP_GRANTED, TCP_REFUSED };

struct tcp_frame {
	uint8_t type;   /* enum tcp_frame_type */
	uint8_t status; /* enum tcp_status */
	uint16_t zero;
	uint32_t length;
	uint32_t sequence;
	uint32_t rkey;
	uint64_t address;
};
_Static_assert(sizeof(struct tcp_frame) == 24, "no padding");

/* Convert between host and wire byte order, in either direction. */
struct tcp_greeting tcp_greeting_swap(struct tcp_greeting greeting);
struct tcp_frame tcp_frame_swap(struct tcp_frame frame);

/* Checks the first @size bytes of a greeting, even before the rest has arrived, so that a peer with another protocol is
   detected early. @kinds has bit 1 << kind for each expected kind. If the version has arrived, writes the version to
   *ret_version. With a version other than TCP_VERSION, ignores the bytes after the version. Returns NULL if the bytes
   are valid, or a text for the log that says what is wrong. */
const char *tcp_greeting_check(const void *bytes, size_t size, unsigned kinds, uint16_t *ret_version);
/* Checks the header of a frame, in host byte order. Returns NULL if the header is valid, or a text for the log that
   says what is wrong. */
const char *tcp_frame_check(const struct tcp_frame *frame);

#endif
