/*
 * far_answer: handles the answers to pieces, from donors and from the backup.
 *
 * Theory of operation. When a read is answered, its bytes are checked against the page's checksum or seal. When
 * every donor has answered a write, the write is committed. Then the piece ends. When the last piece has ended, the
 * request ends, too (far_request.h). The request is carried out anew if a connection ended before the answer
 * arrived. A read with wrong bytes is also carried out anew, if another donor or the backup may have the pages.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_ANSWER_H
#define CLIENT_FAR_ANSWER_H

#include "client/io/far_queue.h"

/* Handles one answer of a donor. @good is false if the connection ended before the answer. Each donor of a piece
   answers once. */
void far_answer_take(struct far_queue *queue, uint16_t piece, unsigned donor, bool good);
/* Handles all answers that the backup has given. */
void far_answer_collect(struct far_queue *queue);

#endif
