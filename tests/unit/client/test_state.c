/*
 * state: a file that is made, locked, left, adopted and emptied; whatever is damaged is refused or cannot do harm; and
 * what a process left half done is made good. `test_client_state SEED` replays one damage.
 */
#include "client/lease/leases.h"
#include "client/page/state.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/tap.h"
#include "tests/unit/client/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAMAGES 1500u

static const char *const uris[TABLES_DONORS] = {"tcp://10.0.0.1:7470", "rdma://10.0.0.2:7470", "auto://third:1"};
static const struct far_config config = {
    .donors = uris, .donor_count = TABLES_DONORS, .pages = TABLES_PAGES, .replicas = 2};
static const uint8_t id[WIRE_ID_SIZE] = "somebody's id";

static int file;
static char path[64];
static uint64_t contents[STORE_PAGE / sizeof(uint64_t)], others[STORE_PAGE / sizeof(uint64_t)];

static uint64_t file_length(void)
{
	struct stat status;

	fstat(file, &status);
	return (uint64_t)status.st_size;
}

static uint64_t file_used(void)
{
	struct stat status;

	fstat(file, &status);
	return (uint64_t)status.st_blocks * 512;
}

static void file_new(void)
{
	file = memfd_create("state", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static struct state *state_or_die(void)
{
	struct state *state;

	if (state_open(path, &state) < 0)
		abort();
	return state;
}

static int adopt_status(const struct far_config *wanted)
{
	struct state *state = state_or_die();
	int status = state_adopt(state, wanted);

	state_close(state, false);
	return status;
}

/* A file with a store whose process has ended. */
static void file_fill(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;

	file_new();
	state = state_or_die();
	if (state_create(state, &config, TABLES_PAGES, TABLES_CHUNK_PAGES, id) < 0)
		abort();
	for (unsigned i = 0; i < TABLES_DONORS; i++)
		state_header(state)->incarnations[i] = 1000 + i;
	state_tables(state, &table, &integrity);
	tables_fill(&table, &integrity, contents);
	state_close(state, false);
}

/* --- Life ------------------------------------------------------------------------------------------------------- */

static void test_life(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state, *other;
	uint64_t lost = 1;

	file_new();
	state = state_or_die();
	ok(state_is_new(state), "an empty file is a new one");
	ok(state_open(path, &other) == -EBUSY, "which one process at a time can use");
	state_close(state, false);
	file_fill();
	state = state_or_die();
	ok(!state_is_new(state) && state_adopt(state, &config) == 0, "left with a store, it can be adopted");
	ok(!memcmp(state_header(state)->id, id, sizeof id) && state_header(state)->incarnations[2] == 1002,
	   "who its client is, is known, and its donors");
	ok(state_recover(state, &lost) == 0 && !lost, "nothing was under way");
	state_tables(state, &table, &integrity);
	ok(table.count == TABLES_CHUNKS && table.pages == TABLES_CHUNK_PAGES && table.replicas == 2 &&
	       integrity.pages == TABLES_PAGES,
	   "its size is what it was");
	ok(integrity_check(&integrity, 7 * TABLES_CHUNK_PAGES + 6, contents) &&
	       !integrity_check(&integrity, 7 * TABLES_CHUNK_PAGES + 7, contents) && chunk_pages_held(&table, 7) == 7,
	   "and so are its pages");
	ok(table.attention[0] == (1 | 1 << 8), "chunks without pages are to be looked at");
	state_close(state, true);
	ok(file_length() == 0, "closed for good, the file is empty");
	state = state_or_die();
	ok(state_is_new(state), "and new");
	state_close(state, false);
	close(file);
}

/* What was sealed is opened by the next process, which uses none of the numbers again. */
static void test_sealed(void)
{
	struct far_config sealed = config;
	uint8_t first[STORE_PAGE], second[STORE_PAGE];
	struct seal_record records[2];
	struct integrity integrity;
	struct chunk_table table;
	struct state *state;
	struct seal *seal;

	sealed.encrypt = true;
	if (seal_load() < 0) {
		ok(true, "sealed pages # SKIP libcrypto cannot be loaded");
		return;
	}
	file_new();
	for (unsigned i = 0; i < 2; i++) {
		state = state_or_die();
		ok((i ? state_adopt(state, &sealed)
		      : state_create(state, &sealed, TABLES_PAGES, TABLES_CHUNK_PAGES, id)) == 0,
		   i ? "a store with sealed pages is adopted" : "or made");
		state_tables(state, &table, &integrity);
		if (!i && integrity_begin(&integrity, 0, TABLES_CHUNK_PAGES) < 0)
			abort();
		if (integrity_sealer(&integrity, &seal) < 0)
			abort();
		if (i)
			ok(integrity_unseal(&integrity, seal, 3, first, NULL), "what was sealed is opened");
		integrity_seal(&integrity, seal, 3, contents, i ? second : first);
		integrity_commit(&integrity, 3, 1);
		memcpy(&records[i], (void *)&integrity.sums[3 * INTEGRITY_SUM_WORDS(true)], sizeof records[i]);
		ok(integrity_unseal(&integrity, seal, 3, i ? second : first, NULL), "as is what is sealed now");
		seal_close(seal);
		state_close(state, false);
	}
	ok(records[1].number >= records[0].number + 1 &&
	       records[1].number / SEAL_BLOCK > records[0].number / SEAL_BLOCK,
	   "under a number that its predecessor had not taken");
	ok(adopt_status(&config) == -EINVAL, "without sealing it is refused");
	close(file);
}

static void test_unfinished(void)
{
	struct state *state;

	file_new();
	if (ftruncate(file, STATE_HEADER_BYTES) < 0)
		abort();
	state = state_or_die();
	ok(state_is_new(state) && state_create(state, &config, TABLES_PAGES, TABLES_CHUNK_PAGES, id) == 0,
	   "one whose process was killed while it made it is new, too");
	state_close(state, false);
	ok(adopt_status(&config) == 0, "and is made whole");
	close(file);
}

static void test_file(void)
{
	char folder[] = "/tmp/farpage-state-XXXXXX", name[64];
	struct stat status;
	struct state *state;

	if (!mkdtemp(folder))
		abort();
	snprintf(name, sizeof name, "%s/state", folder);
	ok(state_open(name, &state) == 0 && stat(name, &status) == 0 && (status.st_mode & 0777) == 0600,
	   "a file that is not there is made, for its owner alone");
	state_close(state, false);
	unlink(name);
	ok(state_open(folder, &state) == -EISDIR, "a folder is refused");
	rmdir(folder);
	ok(state_open(name, &state) == -ENOENT, "so is a file in a folder that is not there");
	ok(state_open("/dev/null", &state) == -EINVAL, "and a device");
}

static void test_thin(void)
{
	uint64_t pages = UINT64_C(1) << 28, used, lost;
	struct far_config large = config;
	struct state *state;
	int status;

	file_new();
	large.pages = pages;
	state = state_or_die();
	status = state_create(state, &large, pages, 16384, id);
	used = file_used();
	ok(status == 0 && used && used < 4 << 20, "1 TiB in slabs of 64 MiB takes %llu KiB",
	   (unsigned long long)(used >> 10));
	state_close(state, false);
	state = state_or_die();
	ok(state_adopt(state, &large) == 0 && state_recover(state, &lost) == 0 && file_used() == used,
	   "and no more when it is adopted");
	state_close(state, false);
	large.pages = UINT64_C(1) << 40;
	state = state_or_die();
	ok(state_create(state, &large, large.pages, 16384, id) == -EFBIG, "what is too large is refused");
	state_close(state, true);
	close(file);
}

/* --- What is refused -------------------------------------------------------------------------------------------- */

static void test_contradiction(void)
{
	const char *swapped[TABLES_DONORS] = {uris[1], uris[0], uris[2]};
	struct far_config wanted = config;

	file_fill();
	wanted.pages = 0;
	ok(adopt_status(&wanted) == 0, "no size given is its size");
	wanted.pages = TABLES_PAGES + 1;
	ok(adopt_status(&wanted) == -EINVAL, "another size is refused");
	wanted = config;
	wanted.replicas = 1;
	ok(adopt_status(&wanted) == -EINVAL, "another number of replicas");
	wanted = config;
	wanted.donor_count = 2;
	ok(adopt_status(&wanted) == -EINVAL, "fewer donors");
	wanted = config;
	wanted.donors = swapped;
	ok(adopt_status(&wanted) == -EINVAL, "donors in another order");
	wanted = config;
	wanted.encrypt = true;
	ok(adopt_status(&wanted) == -EINVAL, "sealed pages, where they are not");
	ok(adopt_status(&config) == 0, "and what it is is not");
	close(file);
}

static void flip(off_t offset, uint8_t bits)
{
	uint8_t byte;

	if (pread(file, &byte, 1, offset) != 1)
		abort();
	byte ^= bits;
	if (pwrite(file, &byte, 1, offset) != 1)
		abort();
}

static void test_header(void)
{
	struct far_config any = config;
	uint64_t length;
	unsigned taken = 0;

	file_fill();
	length = file_length();
	any.pages = 0;
	/* All of what is not an address, and some of those. */
	for (unsigned i = 0; i < offsetof(struct state_header, incarnations);
	     i += i < offsetof(struct state_header, uris) ? 1 : 7) {
		flip(i, (uint8_t)(1 << i % 8));
		taken += adopt_status(&any) != -EINVAL;
		flip(i, (uint8_t)(1 << i % 8));
	}
	ok(!taken, "a bit changed anywhere in the header is noticed");
	for (unsigned i = 0; i < 64; i++) {
		if (ftruncate(file, (off_t)(i < 63 ? length * i / 63 + 1 : length + 65536)) < 0)
			abort();
		taken += adopt_status(&any) != -EINVAL;
	}
	ok(!taken, "so is another length");
	close(file);
}

/* Applied to a table of which everything else is good. */
static bool chunk_refused(void (*damage)(struct chunk_table *))
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;
	bool refused;

	file_fill();
	state = state_or_die();
	if (state_adopt(state, &config) < 0)
		abort();
	state_tables(state, &table, &integrity);
	damage(&table);
	state_close(state, false);
	refused = adopt_status(&config) == -EINVAL;
	close(file);
	return refused;
}

static void damage_donor(struct chunk_table *table)
{
	table->chunks[3].slots[1].key += (uint64_t)TABLES_DONORS << 32;
}

static void damage_twice(struct chunk_table *table)
{
	table->chunks[3].slots[1].key = table->chunks[3].slots[0].key;
}

static void damage_slab(struct chunk_table *table)
{
	table->chunks[3].slabs[0] = table->chunks[6].slabs[0]; /* both on donor 0 */
}

static void damage_ready(struct chunk_table *table)
{
	table->chunks[3].word &= UINT64_C(3) << 32; /* epoch 0 */
}

static void damage_losing(struct chunk_table *table)
{
	table->chunks[15].word = (uint64_t)CHUNK_LOSING << 32;
}

static void damage_none(struct chunk_table *table)
{
	table->chunks[3].slabs[0]++;
}

static void test_chunks(void)
{
	ok(chunk_refused(damage_donor), "a donor that there is not is refused");
	ok(chunk_refused(damage_twice), "two replicas on one donor");
	ok(chunk_refused(damage_slab), "one slab for two chunks");
	ok(chunk_refused(damage_ready) && chunk_refused(damage_losing), "a slab that was never leased");
	ok(!chunk_refused(damage_none), "a slab that its donor may or may not know is not");
}

/* --- What was under way ----------------------------------------------------------------------------------------- */

static void test_recovery(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct chunk_view view;
	struct state *state;
	uint64_t lost;

	file_fill();
	state = state_or_die();
	if (state_adopt(state, &config) < 0)
		abort();
	state_tables(state, &table, &integrity);
	/* 1: a write in flight; 2: committed, and one of the pages counted twice still; 3: discarded, not dropped; 4:
	   being lost; 5: lost, and a write that did not know was committed after; 10: wanted; 11: wanted and half
	   published. */
	chunk_hold(&table, 1, 3, &view);
	integrity_prepare(&integrity, TABLES_CHUNK_PAGES, others);
	chunk_hold(&table, 2, 2, &view);
	integrity_commit(&integrity, 2 * TABLES_CHUNK_PAGES, 1);
	integrity_forget(&integrity, 3 * TABLES_CHUNK_PAGES, 2);
	chunk_lose(&table, 4);
	integrity_lose(&integrity, 4 * TABLES_CHUNK_PAGES, 2);
	chunk_lose(&table, 5);
	integrity_lose(&integrity, 5 * TABLES_CHUNK_PAGES, TABLES_CHUNK_PAGES);
	chunk_lost(&table, 5);
	integrity_commit(&integrity, 5 * TABLES_CHUNK_PAGES, 1);
	chunk_hold(&table, 10, 1, &view);
	chunk_hold(&table, 11, 1, &view);
	table.chunks[11].slots[0].key |= UINT64_C(99) << 32;
	table.chunks[11].slabs[0] = 7;
	table.chunks[7].list = LEASES_IDLE;
	table.chunks[7].next = 5000000;
	state_close(state, false);

	state = state_or_die();
	ok(state_adopt(state, &config) == 0 && state_recover(state, &lost) == 0,
	   "whatever was under way, it is adopted");
	state_tables(state, &table, &integrity);
	ok(chunk_pages_held(&table, 1) == 1 && chunk_pages_held(&table, 2) == 2 && chunk_pages_held(&table, 3) == 1,
	   "pages are counted anew");
	ok(integrity_kind(&integrity, TABLES_CHUNK_PAGES) == INTEGRITY_IS_LIVE &&
	       !integrity_check(&integrity, TABLES_CHUNK_PAGES, contents) &&
	       !integrity_check(&integrity, TABLES_CHUNK_PAGES, others),
	   "a page that was being written matches neither");
	ok(chunk_state(&table, 4) == CHUNK_NONE &&
	       integrity_live(&integrity, 4 * TABLES_CHUNK_PAGES, TABLES_CHUNK_PAGES) == 0 &&
	       integrity_kind(&integrity, 4 * TABLES_CHUNK_PAGES + 3) == INTEGRITY_IS_LOST,
	   "what was being lost is lost");
	ok(integrity_kind(&integrity, 5 * TABLES_CHUNK_PAGES) == INTEGRITY_IS_LOST && lost == 3,
	   "and what was written late");
	ok(chunk_state(&table, 10) == CHUNK_NONE && chunk_is_untouched(&table, 10) &&
	       chunk_state(&table, 11) == CHUNK_NONE && chunk_is_untouched(&table, 11),
	   "nobody waits for a slab any more");
	ok(table.chunks[7].list == LEASES_UNLISTED && !table.chunks[7].next, "no list is left");
	state_close(state, true);
	close(file);
}

/* --- Damage ----------------------------------------------------------------------------------------------------- */

/* Returns whether it was adopted all the same. */
static bool damage_once(uint64_t seed)
{
	struct random_state random;
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;
	uint64_t lost;
	bool adopted;

	random_seed(&random, seed);
	file_fill();
	for (uint64_t i = 0, count = 1 + random_below(&random, 6); i < count; i++) {
		uint64_t part = random_below(&random, 8), length = file_length(), offset;

		/* The chunks, mostly: there is least to notice it by. */
		offset = part < 6 ? 65536 + random_below(&random, TABLES_CHUNKS * sizeof(struct chunk))
				  : random_below(&random, length);
		flip((off_t)offset, (uint8_t)(1 + random_below(&random, 255)));
	}
	state = state_or_die();
	adopted = state_adopt(state, &config) == 0;
	if (adopted && state_recover(state, &lost) == 0) {
		state_tables(state, &table, &integrity);
		tables_use(&table, &integrity, contents);
	}
	state_close(state, false);
	close(file);
	return adopted;
}

static void test_damage(uint64_t first, uint64_t last)
{
	unsigned adopted = 0, refused = 0;

	for (uint64_t seed = first; seed <= last; seed++)
		damage_once(seed) ? adopted++ : refused++;
	ok(first == last || (adopted > 100 && refused > 100), "of %u damaged files %u are refused, and %u do no harm",
	   adopted + refused, refused, adopted);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		test_damage(strtoull(argv[1], NULL, 10), strtoull(argv[1], NULL, 10));
		return tap_done();
	}
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	memset(contents, 5, sizeof contents);
	memset(others, 6, sizeof others);
	test_life();
	test_sealed();
	test_unfinished();
	test_file();
	test_thin();
	test_contradiction();
	test_header();
	test_chunks();
	test_recovery();
	test_damage(1, DAMAGES);
	return tap_done();
}
