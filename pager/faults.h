/*
 * faults: what is done about a fault, by the state of its page. Handler thread only.
 */
#ifndef PAGER_FAULTS_H
#define PAGER_FAULTS_H

#include "pager/handler.h"

/* @thread of the program misses @page since @started (ns). */
void faults_answer(struct handler *handler, uint64_t page, pid_t thread, uint64_t started);
/* @thread of a forked child misses it. */
void faults_answer_child(struct handler *handler, struct child *child, uint64_t page, pid_t thread, uint64_t started);
/* Tries again those that were parked. */
void faults_retry(struct handler *handler);

#endif
