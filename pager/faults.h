/* faults: answers a fault by the state of its page. Handler thread only. */
#ifndef PAGER_FAULTS_H
#define PAGER_FAULTS_H

#include "pager/handler.h"

/* Answers @thread of the program, which has missed @page since @started (ns). */
void faults_answer(struct handler *handler, uint64_t page, pid_t thread, uint64_t started);
/* Answers @thread of a forked child, which has missed @page since @started (ns). */
void faults_answer_child(struct handler *handler, struct child *child, uint64_t page, pid_t thread, uint64_t started);
/* Retries the parked faults. */
void faults_retry(struct handler *handler);

#endif
