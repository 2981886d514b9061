/* tables: see tables.h. */
#include "tests/unit/client/tables.h"

#include "client/donor/claims.h"
#include "client/lease/leases.h"
#include "client/store.h"

#include <stdlib.h>

void tables_fill(struct chunk_table *table, struct integrity *integrity, const void *contents)
{
	struct chunk_view view;

	for (uint32_t i = 0; i < 10; i++) {
		const struct chunk_slot slots[FAR_SLOTS_MAX] = {
		    {.address = 4096 * i, .rkey = i, .donor = i % TABLES_DONORS, .slab = 100 + i},
		    {.address = 4096 * i, .rkey = i, .donor = (i + 1) % TABLES_DONORS, .slab = 200 + i}};
		uint32_t written = i % TABLES_CHUNK_PAGES;

		chunk_hold(table, i, 1, &view);
		integrity_begin(integrity, i * TABLES_CHUNK_PAGES, TABLES_CHUNK_PAGES);
		chunk_publish(table, i, slots);
		chunk_hold(table, i, written, &view);
		for (uint32_t j = 0; j < written; j++)
			integrity_prepare(integrity, i * TABLES_CHUNK_PAGES + j, contents);
		integrity_commit(integrity, i * TABLES_CHUNK_PAGES, written);
	}
}

void tables_use(struct chunk_table *table, struct integrity *integrity, const void *contents)
{
	struct leases_config leasing = {.donor_count = TABLES_DONORS,
					.slab_bytes = TABLES_CHUNK_PAGES * STORE_PAGE,
					.timeout_ns = 1000,
					.idle_ns = 10,
					.seed = 1};
	static struct leases leases;
	struct leases_action action;
	struct chunk_view view;
	struct claims claims;
	uint64_t slab, now = 1;
	uint32_t request, epoch;

	leases = (struct leases){0};
	leases_init(&leases, &leasing, table, integrity);
	for (unsigned i = 0; i < TABLES_DONORS; i++) {
		leases_donor_adopt(&leases, i, claims_count(table, i));
		claims_begin(&claims, table, i);
		while (claims_next(&claims, &request, &slab))
			if (claims_confirmed(&claims, request, slab, 4096, 1) < 0)
				abort();
		leases_donor_back(&leases, i, claims.held, 1 << 30, now);
	}
	leases_scan(&leases, now);
	for (uint64_t i = 0; i < table->count; i++) {
		uint64_t first = i * TABLES_CHUNK_PAGES, rest = integrity->pages - first;

		rest = rest < TABLES_CHUNK_PAGES ? rest : TABLES_CHUNK_PAGES;
		if (chunk_view(table, i, &view) && view.slots[0].donor >= TABLES_DONORS)
			abort();
		if (i % 3 == 0 && chunk_epoch(table, i, &epoch))
			chunk_drop(table, i, epoch, (uint32_t)integrity_forget(integrity, first, rest));
		if (i % 3 == 1 && chunk_hold(table, i, 1, &view) == CHUNK_HELD) {
			integrity_prepare(integrity, first, contents);
			if (integrity_commit(integrity, first, 1))
				chunk_drop(table, i, view.epoch, 1);
		}
	}
	for (; now < 3000; now += 100) {
		leases_scan(&leases, now);
		leases_tick(&leases, now);
		while (leases_next(&leases, &action)) {
			if (action.kind == LEASES_RELEASE)
				leases_released(&leases, action.donor);
			else if (action.kind == LEASES_ASK)
				leases_denied(&leases, action.donor, action.request, now);
		}
	}
	for (unsigned i = 0; i < TABLES_DONORS; i++) {
		leases_donor_lost(&leases, i, now);
		while (leases_next(&leases, &action))
			;
	}
	for (uint64_t i = 0; i < table->count; i++)
		if (chunk_state(table, i) == CHUNK_READY)
			abort();
}
