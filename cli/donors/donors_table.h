/*
 * donors_table: the table that shows how much donors lend.
 *
 * Threads: any.
 */
#ifndef CLI_DONORS_TABLE_H
#define CLI_DONORS_TABLE_H

#include "cli/ask.h"
#include "cli/table.h"

enum donor_column {
	DONOR_NAME,
	DONOR_DONATED,
	DONOR_LEASED,
	DONOR_FREE,
	DONOR_CLIENTS,
	DONOR_SLAB,
	DONOR_DOMAIN,
	DONOR_STATE,
	DONOR_COLUMNS
};
extern const struct table_column donor_columns[DONOR_COLUMNS];

/* Returns the donor's address as the user gave it, or for auto:// the address that was reached. @ask->answer is a
   struct far_donor_info. */
const char *donor_name(const struct ask *ask);
/* Fills in the row of a donor. If the donor did not answer, STATE has the reason. */
void donor_fill(const struct ask *ask, char row[DONOR_COLUMNS][TABLE_CELL_MAX]);
/* Appends a row for each donor. With @sums, appends a row with the sums if several donors have answered. */
void donors_add_rows(const struct ask *asks, unsigned count, bool sums, struct table *table);

#endif
