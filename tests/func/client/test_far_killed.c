/*
 * Processes are killed amid writes, one after the other. The next process adopts the store, and every page whose write
 * was complete has its contents. The argument is the number of replicas.
 *
 * The processes are children of this one. The test opens the store itself only after all of them, because a process
 * with an open RDMA device cannot fork and go on.
 */
#include "common/random.h"
#include "tests/func/client/rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define PAGES (6u * RIG_SLAB_PAGES)
#define DEPTH 24u
#define KILLS 14u

/* The changes of pages by all processes, in shared memory. A version that ends in 7 is a discard. */
static struct journal {
	_Atomic uint32_t begun[PAGES], done[PAGES];
	_Atomic unsigned adopted, checked, uncertain, wrong, mended;
	_Atomic bool finished;
} * journal;

static struct {
	struct store_io io;
	bool active;
} slots[DEPTH];

static bool version_is_zero(uint32_t version)
{
	return !version || version % 8 == 7;
}

static void page_fill(uint64_t *words, uint64_t page, uint32_t version)
{
	for (unsigned i = 0; i < STORE_PAGE / sizeof *words; i++)
		words[i] = page << 48 | (uint64_t)version << 16 | (i & 0xffff);
}

/* Returns true if @words are the contents of one of the versions @first to @last. */
static bool page_is_one_of(const uint64_t *words, uint64_t page, uint32_t first, uint32_t last)
{
	uint32_t version = (uint32_t)(words[0] >> 16);
	bool zero = rig_is_zero(words), zero_fits = false;

	for (uint32_t i = first; i <= last; i++)
		zero_fits |= version_is_zero(i);
	if (zero)
		return zero_fits;
	for (unsigned i = 0; i < STORE_PAGE / sizeof *words; i++)
		if (words[i] != (page << 48 | (uint64_t)version << 16 | (i & 0xffff)))
			return false;
	return version >= first && version <= last && !version_is_zero(version);
}

/* Writes the page's next version and waits until it is complete. */
static void page_mend(struct rig *rig, uint64_t page)
{
	uint32_t version = journal->begun[page] + 1;

	journal->begun[page] = version;
	if (version_is_zero(version)) {
		store_discard(rig->store, page, 1);
	} else {
		page_fill((uint64_t *)rig->bytes, page, version);
		if (rig_write(rig, page, 1, rig->bytes))
			journal->wrong++;
	}
	journal->done[page] = version;
	journal->mended++;
}

/* A page whose last write was complete must have the contents of that write. Any other page has old or new
   contents, or fails its checksum. */
static void pages_check(struct rig *rig)
{
	for (uint64_t page = 0; page < PAGES; page++) {
		uint32_t begun = journal->begun[page], done = journal->done[page];
		int status = rig_read(rig, page, 1, rig->bytes);
		bool good = status == 0 && page_is_one_of((const uint64_t *)rig->bytes, page, done, begun);

		if (begun == done) {
			journal->checked++;
			if (!good)
				printf("# page %llu, version %u: status %d, begins with %llx\n",
				       (unsigned long long)page, done, status, *(unsigned long long *)rig->bytes);
			journal->wrong += !good;
			continue;
		}
		journal->uncertain++;
		journal->wrong += !good && status != -EBADMSG;
		page_mend(rig, page);
	}
	fflush(stdout);
}

static void slot_start(struct rig *rig, unsigned index, struct random_state *random)
{
	uint64_t page = random_below(random, PAGES);
	uint32_t version = journal->begun[page] + 1;

	if (journal->begun[page] != journal->done[page])
		return;
	journal->begun[page] = version;
	if (version_is_zero(version)) {
		store_discard(rig->store, page, 1);
		journal->done[page] = version;
		return;
	}
	slots[index].io = (struct store_io){.op = STORE_WRITE,
					    .count = 1,
					    .page = page,
					    .data = rig->bytes + (size_t)index * STORE_PAGE,
					    .buffer = rig->buffer,
					    .cookie = index};
	page_fill(slots[index].io.data, page, version);
	slots[index].active = store_submit(rig->queue, &slots[index].io, 1) == 1;
	if (!slots[index].active)
		journal->begun[page] = version - 1;
}

static bool slots_active(void)
{
	bool active = false;

	for (unsigned i = 0; i < DEPTH; i++)
		active |= slots[i].active;
	return active;
}

static void slots_end(struct rig *rig)
{
	struct store_done dones[DEPTH];
	int count = slots_active() ? rig_wait(rig->queue, dones, DEPTH) : 0;

	for (int i = 0; i < count; i++) {
		uint64_t page = slots[dones[i].cookie].io.page;

		slots[dones[i].cookie].active = false;
		if (dones[i].status == 0)
			journal->done[page] = journal->begun[page];
		journal->wrong += dones[i].status != 0;
	}
}

/* Discards a whole chunk, so that slabs come and go. */
static void chunk_discard(struct rig *rig, uint64_t first)
{
	while (slots_active())
		slots_end(rig);
	for (uint64_t page = first; page < first + RIG_SLAB_PAGES; page++)
		journal->begun[page] |= 7;
	store_discard(rig->store, first, RIG_SLAB_PAGES);
	for (uint64_t page = first; page < first + RIG_SLAB_PAGES; page++)
		journal->done[page] = journal->begun[page];
}

static void process_main(struct rig *rig, uint64_t seed)
{
	struct random_state random;

	random_seed(&random, seed);
	rig_open(rig);
	journal->adopted++;
	pages_check(rig);
	journal->finished = true;
	for (;;) {
		for (unsigned i = 0; i < DEPTH; i++)
			if (!slots[i].active)
				slot_start(rig, i, &random);
		slots_end(rig);
		if (random_below(&random, 200) == 0)
			chunk_discard(rig, random_below(&random, PAGES / RIG_SLAB_PAGES) * RIG_SLAB_PAGES);
	}
}

static void sleep_ns(uint64_t ns)
{
	struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&pause, NULL);
}

/* Runs a process of the store and kills it at a random moment. */
static void process_kill(struct rig *rig, uint64_t seed, struct random_state *random)
{
	bool early = random_below(random, 3) == 0;
	pid_t pid;

	journal->finished = false;
	pid = fork();
	if (!pid)
		process_main(rig, seed);
	if (early)
		sleep_ns(random_below(random, 20 * MS));
	while (!early && !journal->finished && waitpid(pid, NULL, WNOHANG) == 0)
		sleep_ns(MS / 2);
	sleep_ns(random_below(random, 30 * MS));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void killed_processes_leave_every_complete_write(unsigned replicas)
{
	struct random_state random;
	struct store_stats stats;
	struct rig rig;

	journal = mmap(NULL, sizeof *journal, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	random_seed(&random, replicas);
	rig_donors(&rig, 2, "32M");
	rig_state(&rig);
	rig.config.pages = PAGES;
	rig.config.replicas = replicas;
	fflush(stdout);
	for (unsigned i = 0; i < KILLS; i++)
		process_kill(&rig, i, &random);
	rig_open(&rig);
	pages_check(&rig);
	ok(journal->checked > PAGES && !journal->wrong,
	   "after kills, %u processes have adopted the store, and %u pages are as they were left", journal->adopted + 1,
	   journal->checked);
	ok(journal->uncertain && journal->mended,
	   "%u interrupted pages are old, new or unmatched, and can be written again", journal->uncertain);
	pages_check(&rig);
	stats = rig_stats(&rig);
	ok(!journal->wrong && !stats.lost_pages, "all pages are right after the repair, and none is lost");
	ok(rig_wait_leased(&rig, stats.bytes_leased), "no donor keeps a slab that the store does not know");
	rig_rest(rig.queue);
	store_discard(rig.store, 0, PAGES);
	ok(rig_wait_leased(&rig, 0), "discarding the whole store releases all slabs");
	rig_shut(&rig, false);
	ok(rig_state_length(&rig) == 0, "the state file of a store closed for good is empty");
	munmap(journal, sizeof *journal);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	killed_processes_leave_every_complete_write(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1);
	return tap_done();
}
