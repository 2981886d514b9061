/* helper_ledger: see helper_ledger.h. */
#include "cli/helper/helper_ledger.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The lock on byte N is that of record N, wherever the record is in the file. */
#define WHOLE_LOCK HELPER_GRANTS_MAX

static int lock_set(int fd, int command, short type, unsigned at)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	int status;

	while ((status = fcntl(fd, command, &lock)) < 0 && errno == EINTR)
		;
	return status;
}

static bool is_held(int fd, unsigned slot)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* Reads the records in use. *@ret_free is the first one that is not in use, or HELPER_GRANTS_MAX. */
static unsigned grants_read(int fd, struct helper_grant ret_grants[HELPER_GRANTS_MAX], unsigned *ret_free)
{
	unsigned count = 0;

	*ret_free = HELPER_GRANTS_MAX;
	for (unsigned slot = 0; slot < HELPER_GRANTS_MAX; slot++) {
		struct helper_grant *grant = &ret_grants[count];

		if (!is_held(fd, slot)) {
			*ret_free = *ret_free < slot ? *ret_free : slot;
			continue;
		}
		/* A record that cannot be read counts as the largest. */
		if (pread(fd, grant, sizeof *grant, (off_t)(slot * sizeof *grant)) != sizeof *grant)
			*grant = (struct helper_grant){.swap = UINT64_MAX};
		count++;
	}
	return count;
}

static bool record_write(int fd, unsigned slot, uint32_t uid, uint64_t swap)
{
	const struct helper_grant grant = {.swap = swap, .uid = uid};

	return pwrite(fd, &grant, sizeof grant, (off_t)(slot * sizeof grant)) == sizeof grant;
}

static enum helper_status take(int fd, const struct helper_limits *limits, uint32_t uid, uint64_t swap,
			       unsigned *ret_slot, uint64_t *ret_swap)
{
	struct helper_grant grants[HELPER_GRANTS_MAX];
	unsigned slot, count = grants_read(fd, grants, &slot);
	uint64_t size;
	enum helper_status status = helper_limits_judge(limits, grants, count, uid, swap, &size);

	if (status)
		return status;
	if (!record_write(fd, slot, uid, size) || lock_set(fd, F_OFD_SETLK, F_WRLCK, slot) < 0) {
		log_error("cannot record the device: %m");
		return HELPER_SPACE;
	}
	*ret_slot = slot;
	*ret_swap = size;
	return HELPER_OK;
}

enum helper_status helper_ledger_take(const struct helper_limits *limits, uint32_t uid, uint64_t swap,
				      struct helper_ledger *ret_ledger, uint64_t *ret_swap)
{
	char path[PATH_MAX];
	struct helper_ledger ledger;

	helper_message_path("devices", path);
	ledger.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ledger.fd < 0 || lock_set(ledger.fd, F_OFD_SETLKW, F_WRLCK, WHOLE_LOCK) < 0) {
		log_error("cannot open and lock %s: %m", path);
		if (ledger.fd >= 0)
			close(ledger.fd);
		return HELPER_SPACE;
	}
	enum helper_status status = take(ledger.fd, limits, uid, swap, &ledger.slot, ret_swap);
	lock_set(ledger.fd, F_OFD_SETLK, F_UNLCK, WHOLE_LOCK);
	if (status)
		close(ledger.fd);
	else
		*ret_ledger = ledger;
	return status;
}

void helper_ledger_settle(const struct helper_ledger *ledger, uint32_t uid, uint64_t swap)
{
	if (!record_write(ledger->fd, ledger->slot, uid, swap))
		log_warning("cannot record the device's size: %m");
}

void helper_ledger_release(const struct helper_ledger *ledger)
{
	lock_set(ledger->fd, F_OFD_SETLK, F_UNLCK, ledger->slot);
}
