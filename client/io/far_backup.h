/*
 * far_backup: how a queue reads pages from the backup (backup.h) and writes pages to it.
 *
 * Theory of operation. A queue reads from the backup KEPT pages, and pages that no donor has answered correctly. It
 * writes there when no donor has room, and when the chunk leaves for the backup (chunks.h). Each read or write is a
 * piece of its request, like any other. A read is not published, because it uses no slab. A write is published, so that
 * no window opens for its pages before it ends. The backup's thread pushes its answers on a stack of the queue. The
 * queue's thread checks each read like the data of a donor.
 *
 * A KEPT page whose contents are wrong on the backup is lost from then on. If donors still have the page, it stays
 * live, and the request goes on without the backup.
 *
 * The queue writes to the backup if the chunk was denied a slab because no donor has room or can be reached. From then
 * on donors count as `crowded`, and writes to chunks without a slab do not ask for one. The rebuild thread asks once a
 * second, on behalf of KEPT pages (rebuild_backup.h). When it gets a slab, donors are not crowded any more.
 *
 * If a chunk leaves for the backup, the rebuild thread moves the pages that donors hold. Its writes name the backup in
 * place of a donor, and change neither checksum nor generation.
 *
 * Threads: the queue's. The backup's thread gives its answers by backup_io.answer.
 */
#ifndef CLIENT_FAR_BACKUP_H
#define CLIENT_FAR_BACKUP_H

#include "client/io/far_request.h"

struct backup_io;

/* Names the backup in place of a donor's number. */
#define FAR_ON_BACKUP FAR_DONORS_MAX

/* Allocates the queue's memory for the backup, if there is one. Returns 0 or -ENOMEM. */
int far_backup_queue_open(struct far_queue *queue);
/* Waits until the backup has answered all requests of the queue, and drops the answers. The queue must make no further
   requests, and must still be in far->queues. */
void far_backup_queue_end(struct far_queue *queue);
void far_backup_queue_close(struct far_queue *queue);

/* Returns true if the request may still be read from the backup. */
bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request);
/* Reads the request's next pages, at most @count, from the backup. All these pages are live, or, if @kept is true, all
   are KEPT. Returns FAR_WAITS if no piece is free. */
enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept);
/* far_backup_stands_in() returns true if the chunk's writes go to the backup without asking for a slab.
   far_backup_takes_over() is called for a write whose chunk was denied a slab. The request's status has the reason. If
   the backup takes the write, far_backup_takes_over() clears the status, marks donors as crowded, and returns true. */
bool far_backup_stands_in(const struct far_queue *queue, uint64_t chunk);
bool far_backup_takes_over(const struct far_queue *queue, struct far_request *request);
/* Writes the request's next pages, at most @count, to the backup. Returns FAR_WAITS if no piece is free or a window is
   open. */
enum far_progress far_backup_write(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count);
/* Takes one answer of the backup, and ends its piece. */
void far_backup_end(struct far_queue *queue, struct backup_io *io);

#endif
