/*
 * far_backup: how a queue reads pages from the backup (backup.h): those that are kept there alone, and those that no
 * donor has answered right; and how it writes those there that no donor has room for. Either is a piece of its request
 * like any other. A read is not published, for it goes by no slab; a write is, that no window is open for its pages
 * meanwhile. The answer is put on a stack of the queue's, whose thread checks a read like what a donor sends.
 *
 * A page that is kept, and is not what was written, is lost from then on. A page that donors have is still theirs: the
 * request goes on without the backup.
 *
 * A write is the backup's when its chunk was denied a slab because no donor has room, or none could be reached. From
 * then on donors are `crowded`, and writes of chunks without a slab do not ask first. The rebuild thread does, once a
 * second, for what is kept (rebuild_backup.h); when it gets a slab donors are not crowded any more.
 *
 * Writes of a chunk that is to leave for the backup (chunks.h) go there as well, and so does what the rebuild thread
 * moves of it: that names the backup in place of a donor, and leaves checksum and generation as they are.
 *
 * Threads: the queue's; far_backup_answer: the backup's.
 */
#ifndef CLIENT_FAR_BACKUP_H
#define CLIENT_FAR_BACKUP_H

#include "client/far_request.h"

struct backup_io;

/* In place of a donor's number. */
#define FAR_ON_BACKUP FAR_DONORS_MAX

/* -ENOMEM. Nothing where there is no backup. */
int far_backup_queue_open(struct far_queue *queue);
/* Waits for what its owner does not want any more; nothing is asked from here on. While the queue is in the list. */
void far_backup_queue_end(struct far_queue *queue);
void far_backup_queue_close(struct far_queue *queue);

/* Whether the request may read there. */
bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request);
/* The request's next pages, @count at most, which are live, or (@kept) kept. */
enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept);
/* Whether the chunk's writes go to the backup, and it is not even to be asked a slab for; whether a write for which one
   was denied, whose status says so, goes to the backup all the same: then it has none any more. */
bool far_backup_stands_in(const struct far_queue *queue, uint64_t chunk);
bool far_backup_takes_over(const struct far_queue *queue, struct far_request *request);
/* The request's next pages, @count at most. */
enum far_progress far_backup_write(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count);
/* Ends what was answered. */
void far_backup_collect(struct far_queue *queue);
/* @status: 0, or -EIO. */
void far_backup_answer(struct far *far, struct backup_io *io, int status);

#endif
