/*
 * far_answer: takes the answers to pieces, from donors and from the backup.
 *
 * Theory of operation. The bytes of a read are checked against checksum or seal. A write is committed when every donor
 * has answered. Then the piece ends, and its request with the last piece (far_request.h). If a connection ended before
 * the answer came, the request is carried out anew. The same goes for a read with wrong bytes, if there is another
 * donor or a backup to read from.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_ANSWER_H
#define CLIENT_FAR_ANSWER_H

#include "client/io/far_queue.h"

/* Takes one answer of a donor. @good is false if the connection ended first. The donor must not have answered this
   piece before. */
void far_answer_take(struct far_queue *queue, uint16_t piece, unsigned donor, bool good);
/* Takes all answers that the backup has given. */
void far_answer_collect(struct far_queue *queue);

#endif
