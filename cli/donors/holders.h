/*
 * holders: farpage donors holders, which lists the clients that lease a donor's slabs. commands.h says how it is
 * called.
 *
 * Threads: the caller's.
 */
#ifndef CLI_HOLDERS_H
#define CLI_HOLDERS_H

#include "cli/donors/visit.h"

struct json_object;

int holders_command(int argc, char **argv);

/* Calls @take for each client that leases slabs from the donor. Returns 0, or -errno after one logged line. */
int holders_each(const struct visit *visit,
		 void (*take)(const struct visit *visit, const struct wire_message *holder, void *to), void *to);
/* For holders_each(): prints a line about the client to the stream @to. */
void holders_print_line(const struct visit *visit, const struct wire_message *holder, void *to);
/* For holders_each(): appends the client to the JSON array @to. */
void holders_add_json(const struct visit *visit, const struct wire_message *holder, void *to);

#endif
