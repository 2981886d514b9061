/* far_write: cuts writes into pieces, and sends these to donors or to the backup. See far_queue.h. Threads: the
   queue's. */
#ifndef CLIENT_FAR_WRITE_H
#define CLIENT_FAR_WRITE_H

#include "client/io/far_request.h"

/* Writes the request's next pages: at most @limit, all in @chunk. Returns FAR_WAITS if they cannot be written yet. If
   they cannot be written at all, sets the request's status. */
enum far_progress far_write_next(struct far_queue *queue, uint16_t request, uint64_t chunk, uint32_t limit);

#endif
