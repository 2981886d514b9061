/* far_read: cuts reads into pieces, and sends these to donors or to the backup. See far_queue.h. Threads: the
   queue's. */
#ifndef CLIENT_FAR_READ_H
#define CLIENT_FAR_READ_H

#include "client/io/far_request.h"

/* Reads the request's next pages: at most @limit, all in @chunk. Returns FAR_WAITS if they cannot be read yet. If
   they cannot be read at all, sets the request's status. */
enum far_progress far_read_next(struct far_queue *queue, uint16_t request, uint64_t chunk, uint32_t limit);

#endif
