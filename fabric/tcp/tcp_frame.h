/*
 * tcp_frame: the format of a tcp connection, and its only validator.
 *
 * Theory of operation. Each side sends one greeting: the connecting side CONNECT, the other ACCEPT or REJECT. After
 * ACCEPT both directions are a sequence of frames. A frame is a header, for some types followed by `length` bytes of
 * data:
 *     READ     address, rkey, length, sequence     no data
 *     WRITE    address, rkey, length, sequence     data: what to write
 *     DONE     status, sequence, length            data: what was read; none for a write or a refusal
 *     MESSAGE  length                              data: the message
 *
 * The requests of one side are numbered from 0 (mod 2^32) and answered in that order. A side never has more unanswered
 * requests than the `depth` of its greeting. This limit bounds the memory of the other side. All numbers are
 * little-endian.
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

/* Convert between the byte orders of host and wire, in either direction. */
struct tcp_greeting tcp_greeting_swap(struct tcp_greeting greeting);
struct tcp_frame tcp_frame_swap(struct tcp_frame frame);

/* Checks the part of a greeting that has arrived, its first @size bytes, so that other protocols are detected early.
   @kinds is a mask of 1 << kind of the expected kinds. Writes *ret_version once the version has arrived. The rest of
   another version's greeting is not checked. Returns NULL if the bytes are good, else what is wrong, for the log. */
const char *tcp_greeting_check(const void *bytes, size_t size, unsigned kinds, uint16_t *ret_version);
/* Checks one frame by itself, in host byte order. Returns NULL if it is good, else what is wrong. */
const char *tcp_frame_check(const struct tcp_frame *frame);

#endif
