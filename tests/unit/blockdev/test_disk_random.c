/* disk: many overlapping requests in progress on one queue, with and without faults of the store. */
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/disk_load.h"

#define SMALL (24u * STORE_PAGE)
#define LARGE (1500u * STORE_PAGE)

struct mix {
	const char *name;
	uint64_t bytes, start;
	uint32_t unit, longest, requests, depth, store_depth;
	struct store_faults faults;
};

static const struct store_faults late = {.seed = 3, .delay = 20000, .delay_polls = 7};
static const struct store_faults bad = {
    .seed = 4, .read_error = 2000, .write_error = 2000, .corrupt = 2000, .delay = 20000, .delay_polls = 5};

static void one_queue_reads_what_it_wrote(const struct mix *mix)
{
	struct disk_over over;
	struct disk_load load = {
	    .start = mix->start,
	    .bytes = mix->bytes - mix->start,
	    .unit = mix->unit,
	    .longest = mix->longest,
	    .requests = mix->requests,
	    .depth = mix->depth,
	    .seed = 7,
	    .naps = true,
	};
	struct disk_stats stats;
	uint64_t requests = 0, errors = 0;

	disk_over_open(&over, mix->bytes, &mix->faults, mix->store_depth);
	disk_queue_open(over.disk, mix->depth, &load.queue);
	load_prepare(&load, over.store);
	load_run(&load);
	ok(!load.wrong && !load.torn, "%s: reads find what was written (%u wrong, %u torn)", mix->name, load.wrong,
	   load.torn);
	ok(strict_breaches(over.store) == 0, "%s: the disk breaches no duty of store.h", mix->name);
	ok(!load.strange && (load.failed > 0) == (mix->faults.read_error > 0),
	   "%s: requests fail only with faults of the store (%u of %u)", mix->name, load.failed, load.done);
	disk_get_stats(over.disk, &stats);
	for (unsigned op = 0; op < DISK_OPS; op++) {
		requests += stats.requests[op];
		errors += stats.errors[op];
	}
	ok(requests == load.done && errors == load.failed,
	   "%s: the statistics count all requests and errors (%llu waited)", mix->name,
	   (unsigned long long)stats.waited);
	ok(!disk_queue_busy(load.queue) && disk_arm(load.queue) == 0 && disk_locks_are_free(over.disk),
	   "%s: the idle queue has no requests and no locked pages", mix->name);
	disk_queue_close(load.queue);
	load_finish(&load);
	disk_over_close(&over);
}

int main(void)
{
	const struct mix mixes[] = {
	    {"sectors", SMALL, 0, DISK_SECTOR, 40, 8000, LOAD_DEPTH, 256, {0}},
	    {"sectors, late", SMALL, 0, DISK_SECTOR, 40, 8000, LOAD_DEPTH, 256, late},
	    {"sectors, faults", SMALL, 3 * DISK_SECTOR, DISK_SECTOR, 40, 8000, LOAD_DEPTH, 5, bad},
	    {"pages, late", SMALL, 0, STORE_PAGE, 6, 8000, LOAD_DEPTH, 256, late},
	    {"pages, faults", SMALL, 0, STORE_PAGE, 20, 6000, LOAD_DEPTH, 5, bad},
	    {"one page, late", STORE_PAGE, 0, STORE_PAGE, 1, 8000, LOAD_DEPTH, 256, late},
	    {"one at a time", SMALL, 0, DISK_SECTOR, 40, 5000, 1, 1, bad},
	    {"long, faults", LARGE, 5 * DISK_SECTOR, DISK_SECTOR, 700 * 8, 200, 12, 3, bad},
	};

	for (unsigned i = 0; i < sizeof mixes / sizeof *mixes; i++)
		one_queue_reads_what_it_wrote(&mixes[i]);
	return tap_done();
}
