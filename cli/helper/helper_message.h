/*
 * helper_message: the two messages between `farpage run` and the helper. The helper is a process of root that makes a
 * control group and swap space for an ordinary user (farpage-helper(8)).
 *
 * Theory of operation. Both processes are on the same machine and connected by a UNIX socket that keeps the bounds of
 * messages (SOCK_SEQPACKET), so numbers have the machine's byte order:
 *
 *     run     sends one request: how much local memory, and how much swap space
 *     helper  sends one answer, and then keeps what it has made
 *     run     ends its side of the connection
 *     helper  removes what it has made, and sends one byte (enum helper_removal), or none if a signal ends it
 *
 * The request has no name, path or address, so it cannot point the helper at anything. Donors and keys are in the
 * administrator's configuration.
 *
 * Threads: any.
 */
#ifndef CLI_HELPER_MESSAGE_H
#define CLI_HELPER_MESSAGE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define HELPER_VERSION 1
#define HELPER_TEXT_MAX 256
#define HELPER_GROUP_MAX 1024
#define HELPER_DEVICE_MAX 64

enum helper_status {
	HELPER_OK,
	HELPER_SHORT,        /* the message has another length than a request */
	HELPER_OTHER,        /* another version */
	HELPER_LOCAL,        /* the local memory is out of bounds */
	HELPER_SWAP,         /* the swap space is out of bounds */
	HELPER_FULL,         /* the limit on all devices, or on their total size, is reached */
	HELPER_USER_DEVICES, /* the user has as many devices as one user may have */
	HELPER_USER_SWAP,    /* the user would have more swap space than one user may have */
	HELPER_PEER,         /* the process may not be moved: see helper_peer.h */
	HELPER_DONORS,       /* the donors do not answer, or have no room */
	HELPER_SPACE,        /* the control group or the device cannot be made */
	HELPER_STATUSES
};

/* The byte that the helper sends at the end. */
enum helper_removal {
	HELPER_REMOVED, /* everything */
	HELPER_REMAINS, /* only the device is left; the helper still tries to remove it */
};

struct helper_request {
	uint32_t version; /* HELPER_VERSION */
	uint32_t zero;
	uint64_t local; /* most local memory, in bytes */
	uint64_t swap;  /* size of the swap space in bytes, or 0 for as much as donors and limits allow */
};
_Static_assert(sizeof(struct helper_request) == 24, "no padding");

/* After an error, only version, status and text are set. The texts end with a zero byte. */
struct helper_answer {
	uint32_t version;
	uint32_t status;        /* enum helper_status */
	uint64_t local, swap;   /* sizes of the control group and of the device, in bytes */
	uint32_t replicas;      /* donors that hold each page */
	uint32_t encrypts;      /* 1 if pages are encrypted, otherwise 0 */
	uint32_t group_version; /* enum control_group_version */
	uint32_t zero;
	char group[HELPER_GROUP_MAX];   /* folder of the control group */
	char device[HELPER_DEVICE_MAX]; /* path of the device */
	char text[HELPER_TEXT_MAX];     /* the cause of an error, and what to do next */
};
_Static_assert(sizeof(struct helper_answer) == 40 + HELPER_GROUP_MAX + HELPER_DEVICE_MAX + HELPER_TEXT_MAX,
	       "no padding");

/* Checks a message of @length bytes that a user has sent. Returns HELPER_OK and copies the request, or returns another
   status up to HELPER_SWAP. */
enum helper_status helper_message_check(const void *message, size_t length, struct helper_request *ret_request);

/* Writes "FOLDER/FILE". FOLDER is /run/farpage-helper, or the value of the environment variable FARPAGE_HELPER. The
   socket is the file "socket". */
void helper_message_path(const char *file, char ret_path[PATH_MAX]);

#endif
