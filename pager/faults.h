/* faults: answers a fault by the state of its page. Handler thread only. */
#ifndef PAGER_FAULTS_H
#define PAGER_FAULTS_H

#include "pager/handler.h"

/* Answers a fault of the program: @thread waits for @page since @started (ns). */
void faults_answer(struct handler *handler, uint64_t page, pid_t thread, uint64_t started);
/* Answers a fault of a forked child: @thread waits for @page since @started (ns). */
void faults_answer_child(struct handler *handler, struct child *child, uint64_t page, pid_t thread, uint64_t started);
void faults_retry(struct handler *handler);

#endif
