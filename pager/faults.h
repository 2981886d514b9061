/* faults: answers a fault by the state of its page. Handler thread only. */
#ifndef PAGER_FAULTS_H
#define PAGER_FAULTS_H

#include "pager/handler.h"

/* Answers a fault of the program. */
void faults_answer(struct handler *handler, const struct fault *fault);
/* Answers a fault of a forked child. */
void faults_answer_child(struct handler *handler, const struct fault *fault);
void faults_retry(struct handler *handler);

#endif
