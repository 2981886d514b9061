/* far_forget: makes pages read as zeroes. See far_store.h. Threads: any. */
#include "client/backup/backup.h"
#include "client/far_store.h"

void far_forget(struct far *far, uint64_t page, uint64_t count)
{
	struct chunk_table *table = &far->table;

	while (count) {
		uint64_t chunk = page / table->pages;
		uint64_t rest = table->pages - page % table->pages;
		uint64_t here = count < rest ? count : rest;
		uint32_t epoch, live;

		if (!chunk_is_untouched(table, chunk)) {
			/* Loads the epoch before it changes the pages. If this epoch ends later, its counts are void,
			   and far_drop() does nothing. A chunk without a slab has no live pages. If there were live
			   pages nevertheless, the chunk got a slab after the load, and the pages came back from the
			   backup. So the epoch is loaded again. */
			enum chunk_state before = chunk_state(table, chunk);
			bool ready = chunk_epoch(table, chunk, &epoch);

			live = (uint32_t)integrity_forget(&far->integrity, page, here);
			if (far->backup)
				backup_ring_unmiss_all(&far->backup->ring, page, here);
			if (live && !ready && (before == CHUNK_NONE || before == CHUNK_WANTED))
				ready = chunk_epoch(table, chunk, &epoch);
			if (ready)
				far_drop(far, chunk, epoch, live);
		}
		page += here;
		count -= here;
	}
}
