/*
 * operate: an operator's session with one donor, independent of any store. The operator asks for figures, or orders a
 * drain.
 *
 * Theory of operation. operate_open() starts a session (session.h) over a fabric of its own. operate_ask() sends a
 * request and waits for the answer. Between requests, operate_wait() keeps the session alive. The session leases
 * nothing, so the donor forgets the session when it ends.
 *
 * Threads: one at a time.
 */
#ifndef CLIENT_OPERATE_H
#define CLIENT_OPERATE_H

#include "client/far.h"
#include "wire/wire.h"

struct operate;

/* Connects within fabric.connect_ms. @uri must outlive the session. Returns 0, or -errno, which is logged. */
int operate_open(const struct far_config *config, const char *uri, struct operate **ret_operate);

/* How a donor has refused a session. All zero if the donor did not refuse it. */
struct operate_refusal {
	uint16_t reason, detail; /* enum wire_reason */
};
/* Like operate_open(), but logs nothing. Always writes *ret_refusal. */
int operate_try(const struct far_config *config, const char *uri, struct operate_refusal *ret_refusal,
		struct operate **ret_operate);
/* Says goodbye and frees the session. NULL is allowed. */
void operate_close(struct operate *operate);

/* Returns the address at which the donor was reached, such as "tcp://10.0.0.7:7470". Valid until
   operate_close(). */
const char *operate_peer(const struct operate *operate);
/* Returns the number of this run of the donor. A restart changes the number, an upgrade keeps it. */
uint64_t operate_incarnation(const struct operate *operate);
/* Stores the last figures that the donor sent, not counting this session as a client. */
void operate_figures(const struct operate *operate, struct far_donor_info *ret_donor);
/* Sends a STATUS, DRAIN or HOLDER, and waits for the answer for at most fabric.connect_ms. If the session is lost,
   logs one line and returns -errno. Otherwise returns 0. */
int operate_ask(struct operate *operate, const struct wire_message *request, struct wire_message *ret_answer);
/* Keeps the session alive for @ms. If the session is lost, logs one line and returns -errno. Otherwise returns
   0. */
int operate_wait(struct operate *operate, unsigned ms);

#endif
