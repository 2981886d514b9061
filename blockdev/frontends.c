#include "blockdev/frontends.h"

#include "common/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WHY_MAX 256
/* The defaults of ublk.c and fuse.c: ARENA_DEFAULT, and FUSE_REQUESTS times FUSE_REQUEST_BYTES. */
#define UBLK_FLIGHT_KIB (16u << 10)
#define FUSE_FLIGHT_KIB (8u << 10)
#define REQUEST_KIB 128u

static const struct frontend_ops *const frontends[] = {&frontend_ublk, &frontend_fuse};
#define FRONTENDS (sizeof frontends / sizeof frontends[0])

const struct frontend_ops *frontends_find(const char *name)
{
	for (unsigned i = 0; i < FRONTENDS; i++)
		if (strcmp(frontends[i]->name, name) == 0)
			return frontends[i];
	return NULL;
}

bool frontends_adopts(const char *name)
{
	const struct frontend_ops *ops = frontends_find(name);

	return ops && ops->adopts;
}

const struct frontend_ops *frontends_any(char ret_why[FRONTENDS_NOTE_MAX])
{
	char why[WHY_MAX];
	size_t length = 0;

	*ret_why = 0;
	for (unsigned i = 0; i < FRONTENDS; i++) {
		if (frontends[i]->probe(why) == 0)
			return frontends[i];
		length += (size_t)snprintf(ret_why + length, FRONTENDS_NOTE_MAX - length, "%s%s: %s", i ? "; " : "",
					   frontends[i]->name, why);
		if (length >= FRONTENDS_NOTE_MAX)
			length = FRONTENDS_NOTE_MAX - 1;
	}
	return NULL;
}

static int choose_any(const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX])
{
	char why[FRONTENDS_NOTE_MAX];
	const struct frontend_ops *ops = frontends_any(why);

	if (!ops) {
		log_error("no way to make a block device here: %s", why);
		return -ENODEV;
	}
	*ret_note = 0;
	if (*why)
		snprintf(ret_note, FRONTENDS_NOTE_MAX, "%s, because a faster front end does not work here: %.440s",
			 ops->name, why);
	*ret_ops = ops;
	return 0;
}

int frontends_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX])
{
	const struct frontend_ops *ops;
	char why[WHY_MAX];
	int status;

	if (strcmp(name, "auto") == 0)
		return choose_any(ret_ops, ret_note);
	ops = frontends_find(name);
	if (!ops) {
		log_error("--frontend '%.32s': no such front end; give auto, ublk or fuse", name);
		return -EINVAL;
	}
	status = ops->probe(why);
	if (status < 0) {
		log_error("%s", why);
		return status;
	}
	*ret_note = 0;
	*ret_ops = ops;
	return 0;
}

uint64_t frontends_flight_kib(const struct frontend_ops *ops, unsigned queues, unsigned depth)
{
	if (queues && depth)
		return (uint64_t)queues * depth * REQUEST_KIB;
	return ops == &frontend_fuse ? FUSE_FLIGHT_KIB : UBLK_FLIGHT_KIB;
}
