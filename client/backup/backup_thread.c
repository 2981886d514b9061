/* backup_thread: the thread of backup.h. */
#include "client/backup/backup.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/thread.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define BACKUP_STACK (128u << 10)
#define NS_PER_S UINT64_C(1000000000)

/* Waits until there is something to do, at most @ns (UINT64_MAX for no limit). */
static void backup_wait(struct backup *backup, uint64_t ns)
{
	struct pollfd fds[] = {{.fd = backup->wake, .events = POLLIN},
			       {.fd = backup_disk_fd(backup->disk), .events = POLLIN}};
	struct timespec timeout = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	eventfd_t value;

	/* A page that is put in during a batch, or in the pause after one, need not wake the thread. `asleep` is stored
	   before the ring is looked at. */
	atomic_store(&backup->asleep, ns == UINT64_MAX && !backup->batch);
	if (!backup->asleep || !backup_ring_at(&backup->ring, 0))
		ppoll(fds, 2, ns == UINT64_MAX ? NULL : &timeout, NULL);
	atomic_store(&backup->asleep, false);
	if (fds[0].revents)
		eventfd_read(backup->wake, &value);
}

static void *backup_main(void *argument)
{
	struct backup *backup = argument;

	while (!backup_is_over(backup)) {
		uint64_t now = clock_now(), due = backup_step(backup, now);

		if (due > now)
			backup_wait(backup, due == UINT64_MAX ? UINT64_MAX : due - now);
	}
	return NULL;
}

int backup_start(struct backup *backup)
{
	int error;

	if (!backup)
		return 0;
	error = thread_start(&backup->thread, NULL, BACKUP_STACK, backup_main, backup);
	backup->started = error == 0;
	if (error < 0)
		log_error("cannot start the thread that keeps the backup: %s", format_errno(error));
	return error;
}

void backup_stop(struct backup *backup)
{
	if (!backup || !backup->started)
		return;
	atomic_store(&backup->stop, true);
	eventfd_write(backup->wake, 1);
	pthread_join(backup->thread, NULL);
	backup->started = false;
}
