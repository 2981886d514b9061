/*
 * helper_call: `farpage run` of an ordinary user asks the helper (farpage-helper(8)) for a control group and swap
 * space.
 *
 * Theory of operation. The helper moves the process that connects the socket. This must be the command alone, because
 * `farpage run` itself uses memory, and must outlive the group. So `farpage run` makes the socket, and its child
 * connects it. Both have the socket then. The child's descriptor is closed by exec(2), and the connection ends when
 * `farpage run` ends it, or is killed.
 *
 * Threads: one in each process.
 */
#ifndef CLI_HELPER_CALL_H
#define CLI_HELPER_CALL_H

#include "cli/helper/helper_message.h"

#include <stdbool.h>

/* Returns true if the helper's socket exists and this user may connect it. Does not connect. */
bool helper_call_possible(void);
/* Makes a socket. Returns a descriptor, or -errno after one logged line. */
int helper_call_open(void);
/* Connects @socket and asks for @local bytes of memory and @swap bytes of swap space (0 for as much as possible).
   Returns 0 when this process is in the control group, or -errno after one logged line. */
int helper_call_ask(int socket, uint64_t local, uint64_t swap, struct helper_answer *ret_answer);
/* Ends the connection, and waits until the helper has removed everything, or has removed the control group and failed
   to remove the device. Logs one line in the second case, and if the helper was ended before. @answered tells if
   helper_call_ask() has returned 0. */
void helper_call_end(int socket, bool answered);

#endif
