/*
 * listing: a command that takes no argument and prints a list, as a table or (--json) as JSON.
 *
 * Threads: one.
 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "cli/json.h"
#include "cli/subcommands.h"
#include "cli/table.h"

struct listing {
	const char *key; /* the name of the list in JSON, such as "disks" */
	bool json;
	struct table *table;      /* the caller adds rows */
	struct json_object *list; /* the caller adds objects; an array */
};

/* Reads the command line. Returns -1 if the command continues, and then ends with listing_print() or listing_drop().
   Otherwise returns the exit status. @columns must live as long as the listing. */
int listing_begin(const struct subcommands_text *text, const char *key, const struct table_column *columns,
		  unsigned count, int argc, char **argv, struct listing *ret_listing);
/* Prints the table or the JSON, and releases both. */
void listing_print(struct listing *listing);
/* Releases both after an error. */
void listing_drop(struct listing *listing);

#endif
