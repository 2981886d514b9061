/*
 * operate: an operator's session with one donor. It asks for figures and orders a drain, and belongs to no store.
 *
 * Theory of operation. The session (session.h) has a fabric of its own. Each request is sent, and its answer waited
 * for. Between requests, operate_wait() keeps the session alive. The session leases nothing, so the donor forgets it as
 * soon as it ends.
 *
 * Threads: one at a time.
 */
#ifndef CLIENT_OPERATE_H
#define CLIENT_OPERATE_H

#include "client/far.h"
#include "wire/wire.h"

struct operate;

/* Connects within fabric.connect_ms. @uri outlives the session. Returns 0 or -errno. All errors are logged. */
int operate_open(const struct far_config *config, const char *uri, struct operate **ret_operate);

/* How a donor has refused a session. All zero if it has not. */
struct operate_refusal {
	uint16_t reason, detail; /* enum wire_reason */
};
/* Does the same, for a session that logs nothing. @ret_refusal is written in any case. */
int operate_try(const struct far_config *config, const char *uri, struct operate_refusal *ret_refusal,
		struct operate **ret_operate);
/* Says goodbye and frees the session. Takes NULL. */
void operate_close(struct operate *operate);

/* Returns the address at which the donor was reached, such as "tcp://10.0.0.7:7470". It lives as long as the
   session. */
const char *operate_peer(const struct operate *operate);
/* Gives the last figures that the donor sent. Its count of clients leaves out this session. */
void operate_figures(const struct operate *operate, struct far_donor_info *ret_donor);
/* Sends a STATUS, DRAIN or HOLDER and waits for the answer, at most for fabric.connect_ms. Returns 0, or -errno after
   one logged line if the session is lost. */
int operate_ask(struct operate *operate, const struct wire_message *request, struct wire_message *ret_answer);
/* Keeps the session alive for @ms. Returns 0, or -errno after one logged line if the session is lost. */
int operate_wait(struct operate *operate, unsigned ms);

#endif
