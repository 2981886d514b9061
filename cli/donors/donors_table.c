/* donors_table: see donors_table.h. */
#include "cli/donors/donors_table.h"

#include "cli/donors/drain.h"
#include "common/size.h"
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

const struct table_column donor_columns[DONOR_COLUMNS] = {
    [DONOR_NAME] = {.name = "DONOR"},
    [DONOR_DONATED] = {.name = "DONATED", .right = true},
    [DONOR_LEASED] = {.name = "LEASED", .right = true},
    [DONOR_FREE] = {.name = "FREE", .right = true},
    [DONOR_CLIENTS] = {.name = "CLIENTS", .right = true},
    [DONOR_SLAB] = {.name = "SLAB", .right = true},
    [DONOR_DOMAIN] = {.name = "DOMAIN", .optional = true},
    [DONOR_STATE] = {.name = "STATE"},
};

const char *donor_name(const struct ask *ask)
{
	const struct far_donor_info *donor = ask->answer;

	return strncmp(ask->uri, "auto://", strlen("auto://")) != 0 || !*donor->via ? ask->uri : donor->via;
}

static void fill_figures(const struct far_donor_info *donor, char row[DONOR_COLUMNS][TABLE_CELL_MAX])
{
	char text[SIZE_TEXT_MAX];

	snprintf(row[DONOR_DONATED], TABLE_CELL_MAX, "%s", size_format(donor->donated, text));
	snprintf(row[DONOR_LEASED], TABLE_CELL_MAX, "%s", size_format(donor->leased, text));
	snprintf(row[DONOR_FREE], TABLE_CELL_MAX, "%s", size_format(ask_free(donor), text));
	snprintf(row[DONOR_CLIENTS], TABLE_CELL_MAX, "%u", donor->clients);
}

void donor_fill(const struct ask *ask, char row[DONOR_COLUMNS][TABLE_CELL_MAX])
{
	const struct far_donor_info *donor = ask->answer;
	char text[SIZE_TEXT_MAX];

	memset(row, 0, DONOR_COLUMNS * sizeof row[0]);
	snprintf(row[DONOR_NAME], TABLE_CELL_MAX, "%s", ask->status < 0 ? ask->uri : donor_name(ask));
	if (ask->status < 0) {
		snprintf(row[DONOR_STATE], TABLE_CELL_MAX, "%s", ask_reason(ask->status));
		return;
	}
	fill_figures(donor, row);
	snprintf(row[DONOR_SLAB], TABLE_CELL_MAX, "%s", size_format(donor->slab_bytes, text));
	snprintf(row[DONOR_DOMAIN], TABLE_CELL_MAX, "%s", donor->failure_domain);
	if (donor->state != WIRE_STATE_LENDING)
		snprintf(row[DONOR_STATE], TABLE_CELL_MAX, "%s", drain_state_name(donor->state));
}

void donors_add_rows(const struct ask *asks, unsigned count, bool sums, struct table *table)
{
	char row[DONOR_COLUMNS][TABLE_CELL_MAX];
	struct far_donor_info total = {0};
	unsigned answered = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct far_donor_info *donor = asks[i].answer;

		donor_fill(&asks[i], row);
		table_add(table, row);
		if (asks[i].status < 0)
			continue;
		total.donated += donor->donated;
		total.leased += donor->leased;
		total.clients += donor->clients;
		answered++;
	}
	if (!sums || answered < 2)
		return;
	memset(row, 0, sizeof row);
	snprintf(row[DONOR_NAME], TABLE_CELL_MAX, "total");
	fill_figures(&total, row);
	table_add(table, row);
}
