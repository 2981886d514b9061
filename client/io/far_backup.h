/*
 * far_backup: how a queue reads pages from the backup (backup.h) and writes pages to it.
 *
 * Theory of operation. A queue reads KEPT pages from the backup, and pages that no donor has returned intact. A queue
 * writes to the backup if no donor has a free slab, or if the chunk is leaving for the backup (chunks.h).
 *
 * Each such read or write is a piece of its request, like any other piece. The queue hands it to the backup's thread
 * (backup_ask()). That thread puts its answer on a stack of the queue and wakes the queue. The queue then checks the
 * bytes of a read like bytes from a donor. A read is not published, because it uses no slab. A write is published, so
 * a rebuild window for its pages waits until the write has ended.
 *
 * If a KEPT page is wrong on the backup, it is lost, because there is no other copy. If a live page is wrong on the
 * backup, the request goes back to the donors.
 *
 * Crowded donors. A chunk is denied a slab if no donor has a free slab, or if no donor can be reached. The chunk's
 * write then goes to the backup, and donors count as `crowded`. While donors are crowded, a write to a chunk without
 * a slab goes to the backup and asks for no slab. Once a second, the rebuild thread asks for a slab, to bring KEPT
 * pages back (rebuild_backup.h). When this slab is granted, the thread clears `crowded`.
 *
 * When a chunk leaves for the backup, the rebuild thread moves the chunk's pages. The thread's writes name
 * FAR_ON_BACKUP in place of a donor, and change neither checksum nor generation.
 *
 * Threads: the queue's. The backup's thread calls backup_io.answer.
 */
#ifndef CLIENT_FAR_BACKUP_H
#define CLIENT_FAR_BACKUP_H

#include "client/io/far_request.h"

struct backup_io;

/* The donor number that stands for the backup. */
#define FAR_ON_BACKUP FAR_DONORS_MAX

/* Allocates the queue's memory for the backup, if there is a backup. Returns 0 or -ENOMEM. */
int far_backup_queue_open(struct far_queue *queue);
/* Waits until the backup has answered all requests of the queue, and drops the answers. Called when the queue makes
   no more requests, but is still in far->queues. */
void far_backup_queue_end(struct far_queue *queue);
void far_backup_queue_close(struct far_queue *queue);

/* Returns true if the request may still be tried on the backup. */
bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request);
/* Reads the request's next pages, at most @count, from the backup. The pages are all KEPT if @kept is true, and
   otherwise all live. Returns FAR_WAITS if no piece is free. */
enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept);
/* far_backup_stands_in() returns true if writes to the chunk go to the backup without asking for a slab.
   far_backup_takes_over() is called for a write whose chunk was denied a slab for the reason in the request's
   status. If the backup can take the write, far_backup_takes_over() clears the status, marks donors as crowded, and
   returns true. */
bool far_backup_stands_in(const struct far_queue *queue, uint64_t chunk);
bool far_backup_takes_over(const struct far_queue *queue, struct far_request *request);
/* Writes the request's next pages, at most @count, to the backup. Returns FAR_WAITS if no piece is free or the
   rebuild window has some of the pages. */
enum far_progress far_backup_write(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count);
/* Handles one answer of the backup, and ends its piece. */
void far_backup_end(struct far_queue *queue, struct backup_io *io);

#endif
