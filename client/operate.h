/*
 * operate: an operator's session with one donor, for questions and orders that are no store's: what it has, draining.
 *
 * Theory of operation. A session (session.h) on a fabric of its own. Each request is sent and its answer waited for;
 * between requests operate_wait() keeps the session alive. It leases nothing, so the donor has forgotten it as soon as
 * it ends.
 *
 * Threads. One at a time.
 */
#ifndef CLIENT_OPERATE_H
#define CLIENT_OPERATE_H

#include "client/far.h"
#include "farpage/wire.h"

struct operate;

/* Connects within fabric.connect_ms. Errors are logged as far_open() does. @uri outlives it. */
int operate_open(const struct far_config *config, const char *uri, struct operate **ret_operate);
/* Says goodbye. Takes NULL. */
void operate_close(struct operate *operate);

/* The donor's figures, as last heard; the clients are those besides this session. */
void operate_figures(const struct operate *operate, struct far_donor *ret_donor);
/* Sends a STATUS, DRAIN or HOLDER and waits for its answer, at most fabric.connect_ms. -errno after one logged line:
   the session is lost. */
int operate_ask(struct operate *operate, const struct wire_message *request, struct wire_message *ret_answer);
/* Time passes. -errno after one logged line: the session is lost. */
int operate_wait(struct operate *operate, unsigned ms);

#endif
