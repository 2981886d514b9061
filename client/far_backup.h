/*
 * far_backup: how a queue reads pages from the backup (backup.h): those that are kept there alone, and those that no
 * donor has answered right. Such a read is a piece of its request like any other; it is not published, for it goes by
 * no slab. The answer is put on a stack of the queue's, whose thread checks it like what a donor sends.
 *
 * A page that is kept, and is not what was written, is lost from then on. A page that donors have is still theirs: the
 * request goes on without the backup.
 *
 * Threads: the queue's; far_backup_answer: the backup's.
 */
#ifndef CLIENT_FAR_BACKUP_H
#define CLIENT_FAR_BACKUP_H

#include "client/far_request.h"

struct backup_read;

/* -ENOMEM. Nothing where there is no backup. */
int far_backup_queue_open(struct far_queue *queue);
/* Waits for what its owner does not want any more; nothing is asked from here on. While the queue is in the list. */
void far_backup_queue_end(struct far_queue *queue);
void far_backup_queue_close(struct far_queue *queue);

/* Whether the request may read there. */
bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request);
/* The request's next pages, @count at most, which are live, or (@kept) kept. */
enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept);
/* Ends what was answered. */
void far_backup_collect(struct far_queue *queue);
/* @status: 0: to be checked; or -EIO. */
void far_backup_answer(struct far *far, struct backup_read *read, int status);

#endif
