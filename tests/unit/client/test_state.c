/*
 * state: a file that is made, locked, left, adopted and emptied. Damage is refused or does no harm, and recovery
 * completes or undoes changes that a process left half done. `test_client_state SEED` replays one damage.
 */
#include "client/lease/leases.h"
#include "client/page/state.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/state_file.h"
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

/* Makes a file with a store whose process has ended. */
static void file_fill(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;

	file_new();
	state = state_file_open(file);
	if (state_create(state, &config, TABLES_PAGES, TABLES_CHUNK_PAGES, id) < 0)
		abort();
	for (unsigned i = 0; i < TABLES_DONORS; i++)
		state_header(state)->incarnations[i] = 1000 + i;
	state_tables(state, &table, &integrity);
	tables_fill(&table, &integrity, contents);
	state_close(state, false);
}

/* --- Life ------------------------------------------------------------------------------------------------------- */

static void state_file_is_left_adopted_and_emptied(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state, *other;
	uint64_t lost = 1;

	file_new();
	state = state_file_open(file);
	ok(state_is_new(state), "an empty state file is new");
	ok(state_open(path, &other) == -EBUSY, "a state file in use cannot be opened a second time");
	state_close(state, false);
	file_fill();
	state = state_file_open(file);
	ok(!state_is_new(state) && state_adopt(state, &config) == 0,
	   "a state file that was left with a store can be adopted");
	ok(!memcmp(state_header(state)->id, id, sizeof id) && state_header(state)->incarnations[2] == 1002,
	   "an adopted state file keeps its client id and its donors' incarnations");
	ok(state_recover(state, &lost) == 0 && !lost, "recovery of a cleanly left store loses no page");
	state_tables(state, &table, &integrity);
	ok(table.count == TABLES_CHUNKS && table.pages == TABLES_CHUNK_PAGES && table.replicas == 2 &&
	       integrity.pages == TABLES_PAGES,
	   "an adopted store keeps its sizes");
	ok(integrity_check(&integrity, 7 * TABLES_CHUNK_PAGES + 6, contents) &&
	       !integrity_check(&integrity, 7 * TABLES_CHUNK_PAGES + 7, contents) && chunk_pages_held(&table, 7) == 7,
	   "an adopted store keeps its pages' checksums and counts");
	ok(table.attention[0] == (1 | 1 << 8), "recovery marks chunks without held pages for the control thread");
	state_close(state, true);
	ok(file_length() == 0, "a state file closed for good is empty");
	state = state_file_open(file);
	ok(state_is_new(state), "a state file closed for good is new when it is opened again");
	state_close(state, false);
	close(file);
}

/* Pages sealed by one process are opened by the next, which uses none of the numbers again. */
static void sealed_pages_open_after_adoption_with_new_numbers(void)
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
		tap_skip("sealed pages", "libcrypto cannot be loaded");
		return;
	}
	file_new();
	for (unsigned i = 0; i < 2; i++) {
		state = state_file_open(file);
		ok((i ? state_adopt(state, &sealed)
		      : state_create(state, &sealed, TABLES_PAGES, TABLES_CHUNK_PAGES, id)) == 0,
		   i ? "a store with sealed pages is adopted" : "a store with sealed pages is created");
		state_tables(state, &table, &integrity);
		if (!i && integrity_begin(&integrity, 0, TABLES_CHUNK_PAGES) < 0)
			abort();
		if (integrity_sealer(&integrity, &seal) < 0)
			abort();
		if (i)
			ok(integrity_unseal(&integrity, seal, 3, first, NULL),
			   "a page sealed by the previous process opens after adoption");
		integrity_seal(&integrity, seal, 3, contents, i ? second : first);
		integrity_commit(&integrity, 3, 1);
		memcpy(&records[i], (void *)&integrity.sums[3 * INTEGRITY_SUM_WORDS(true)], sizeof records[i]);
		ok(integrity_unseal(&integrity, seal, 3, i ? second : first, NULL),
		   "a page sealed by this process opens");
		seal_close(seal);
		state_close(state, false);
	}
	ok(records[1].number >= records[0].number + 1 &&
	       records[1].number / SEAL_BLOCK > records[0].number / SEAL_BLOCK,
	   "a page sealed after adoption has a number from a new block");
	ok(state_file_adopt(file, &config) == -EINVAL, "a sealed store is not adopted without encryption");
	close(file);
}

static void half_made_state_file_counts_as_new(void)
{
	struct state *state;

	file_new();
	if (ftruncate(file, STATE_HEADER_BYTES) < 0)
		abort();
	state = state_file_open(file);
	ok(state_is_new(state) && state_create(state, &config, TABLES_PAGES, TABLES_CHUNK_PAGES, id) == 0,
	   "a state file whose creation was interrupted counts as new and can be created");
	state_close(state, false);
	ok(state_file_adopt(file, &config) == 0, "a state file created after an interruption can be adopted");
	close(file);
}

static void state_file_is_private_and_regular(void)
{
	char folder[] = "/tmp/farpage-state-XXXXXX", name[64];
	struct stat status;
	struct state *state;

	if (!mkdtemp(folder))
		abort();
	snprintf(name, sizeof name, "%s/state", folder);
	ok(state_open(name, &state) == 0 && stat(name, &status) == 0 && (status.st_mode & 0777) == 0600,
	   "a missing state file is made with mode 0600");
	state_close(state, false);
	unlink(name);
	ok(state_open(folder, &state) == -EISDIR, "a folder is refused as a state file");
	rmdir(folder);
	ok(state_open(name, &state) == -ENOENT, "a state file in a missing folder is refused with -ENOENT");
	ok(state_open("/dev/null", &state) == -EINVAL, "a device is refused as a state file");
}

static void state_file_of_a_large_store_stays_small(void)
{
	uint64_t pages = UINT64_C(1) << 28, used, lost;
	struct far_config large = config;
	struct state *state;
	int status;

	file_new();
	large.pages = pages;
	state = state_file_open(file);
	status = state_create(state, &large, pages, 16384, id);
	used = file_used();
	ok(status == 0 && used && used < 4 << 20, "the state file of 1 TiB in slabs of 64 MiB takes %llu KiB",
	   (unsigned long long)(used >> 10));
	state_close(state, false);
	state = state_file_open(file);
	ok(state_adopt(state, &large) == 0 && state_recover(state, &lost) == 0 && file_used() == used,
	   "adoption and recovery do not make the state file larger");
	state_close(state, false);
	large.pages = UINT64_C(1) << 40;
	state = state_file_open(file);
	ok(state_create(state, &large, large.pages, 16384, id) == -EFBIG,
	   "a store too large for a state file is refused with -EFBIG");
	state_close(state, true);
	close(file);
}

/* --- What is refused -------------------------------------------------------------------------------------------- */

static void contradicting_configurations_are_refused(void)
{
	const char *swapped[TABLES_DONORS] = {uris[1], uris[0], uris[2]};
	struct far_config wanted = config;

	file_fill();
	wanted.pages = 0;
	ok(state_file_adopt(file, &wanted) == 0, "a configuration without a size adopts the store's size");
	wanted.pages = TABLES_PAGES + 1;
	ok(state_file_adopt(file, &wanted) == -EINVAL, "a configuration of another size is refused");
	wanted = config;
	wanted.replicas = 1;
	ok(state_file_adopt(file, &wanted) == -EINVAL, "a configuration of another number of replicas is refused");
	wanted = config;
	wanted.donor_count = 2;
	ok(state_file_adopt(file, &wanted) == -EINVAL, "a configuration of fewer donors is refused");
	wanted = config;
	wanted.donors = swapped;
	ok(state_file_adopt(file, &wanted) == -EINVAL, "a configuration of donors in another order is refused");
	wanted = config;
	wanted.encrypt = true;
	ok(state_file_adopt(file, &wanted) == -EINVAL,
	   "a configuration with encryption is refused for a store without");
	ok(state_file_adopt(file, &config) == 0, "the store's own configuration is still accepted after refusals");
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

static void changed_header_is_refused(void)
{
	const size_t added = offsetof(struct state_header, uris) + TABLES_DONORS * FAR_URI_MAX;
	struct far_config any = config;
	uint64_t length;
	unsigned taken = 0;

	file_fill();
	length = file_length();
	any.pages = 0;
	/* Tries each byte before the donors' URIs, and from there on every seventh byte. The places of added donors may
	   contain anything. */
	for (size_t i = 0; i < offsetof(struct state_header, incarnations);
	     i += i < offsetof(struct state_header, uris) ? 1 : 7) {
		if (i >= added && i < offsetof(struct state_header, backup))
			continue;
		flip((off_t)i, (uint8_t)(1 << i % 8));
		taken += state_file_adopt(file, &any) != -EINVAL;
		flip((off_t)i, (uint8_t)(1 << i % 8));
	}
	ok(!taken, "a header with any tested bit changed is refused");
	for (unsigned i = 0; i < 64; i++) {
		if (ftruncate(file, (off_t)(i < 63 ? length * i / 63 + 1 : length + 65536)) < 0)
			abort();
		taken += state_file_adopt(file, &any) != -EINVAL;
	}
	ok(!taken, "a state file of any other tested length is refused");
	close(file);
}

/* Applies @damage to a table that is otherwise good. Returns true if the file is then refused. */
static bool chunk_refused(void (*damage)(struct chunk_table *))
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;
	bool refused;

	file_fill();
	state = state_file_open(file);
	if (state_adopt(state, &config) < 0)
		abort();
	state_tables(state, &table, &integrity);
	damage(&table);
	state_close(state, false);
	refused = state_file_adopt(file, &config) == -EINVAL;
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

static void impossible_chunks_are_refused(void)
{
	ok(chunk_refused(damage_donor), "a chunk on a donor that does not exist is refused");
	ok(chunk_refused(damage_twice), "a chunk with two replicas on one donor is refused");
	ok(chunk_refused(damage_slab), "one slab in two chunks is refused");
	ok(chunk_refused(damage_ready) && chunk_refused(damage_losing), "a slab that was never leased is refused");
	ok(!chunk_refused(damage_none), "a slab name that only the donor can judge is accepted");
}

/* --- What was under way ----------------------------------------------------------------------------------------- */

static void recovery_settles_what_was_under_way(void)
{
	struct chunk_table table;
	struct integrity integrity;
	struct chunk_view view;
	struct state *state;
	uint64_t lost;

	file_fill();
	state = state_file_open(file);
	if (state_adopt(state, &config) < 0)
		abort();
	state_tables(state, &table, &integrity);
	/*
	 * Chunk 1: a write in flight. 2: a committed page that is still counted twice. 3: a discarded page not yet
	 * dropped. 4: a chunk being lost. 5: a lost chunk, and a late write that was committed after. 10: a wanted
	 * chunk. 11: a wanted chunk, half published.
	 */
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

	state = state_file_open(file);
	ok(state_adopt(state, &config) == 0 && state_recover(state, &lost) == 0,
	   "a store with operations under way is adopted");
	state_tables(state, &table, &integrity);
	ok(chunk_pages_held(&table, 1) == 1 && chunk_pages_held(&table, 2) == 2 && chunk_pages_held(&table, 3) == 1,
	   "recovery counts the held pages of each chunk again");
	ok(integrity_kind(&integrity, TABLES_CHUNK_PAGES) == INTEGRITY_IS_LIVE &&
	       !integrity_check(&integrity, TABLES_CHUNK_PAGES, contents) &&
	       !integrity_check(&integrity, TABLES_CHUNK_PAGES, others),
	   "a page that was being written stays live and matches neither contents");
	ok(chunk_state(&table, 4) == CHUNK_NONE &&
	       integrity_live(&integrity, 4 * TABLES_CHUNK_PAGES, TABLES_CHUNK_PAGES) == 0 &&
	       integrity_kind(&integrity, 4 * TABLES_CHUNK_PAGES + 3) == INTEGRITY_IS_LOST,
	   "recovery completes the loss of a chunk that was being lost");
	ok(integrity_kind(&integrity, 5 * TABLES_CHUNK_PAGES) == INTEGRITY_IS_LOST && lost == 3,
	   "recovery loses a page that was committed after its chunk's loss");
	ok(chunk_state(&table, 10) == CHUNK_NONE && chunk_is_untouched(&table, 10) &&
	       chunk_state(&table, 11) == CHUNK_NONE && chunk_is_untouched(&table, 11),
	   "recovery forgets that chunks wanted a slab");
	ok(table.chunks[7].list == LEASES_UNLISTED && !table.chunks[7].next, "recovery clears the chunk lists");
	state_close(state, true);
	close(file);
}

/* --- Damage ----------------------------------------------------------------------------------------------------- */

/* Returns true if the damaged file was adopted. */
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

		/* Mostly the chunks, because they have the least redundancy. */
		offset = part < 6 ? 65536 + random_below(&random, TABLES_CHUNKS * sizeof(struct chunk))
				  : random_below(&random, length);
		flip((off_t)offset, (uint8_t)(1 + random_below(&random, 255)));
	}
	state = state_file_open(file);
	adopted = state_adopt(state, &config) == 0;
	if (adopted && state_recover(state, &lost) == 0) {
		state_tables(state, &table, &integrity);
		tables_use(&table, &integrity, contents);
	}
	state_close(state, false);
	close(file);
	return adopted;
}

static void damaged_files_are_refused_or_do_no_harm(uint64_t first, uint64_t last)
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
		damaged_files_are_refused_or_do_no_harm(strtoull(argv[1], NULL, 10), strtoull(argv[1], NULL, 10));
		return tap_done();
	}
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	memset(contents, 5, sizeof contents);
	memset(others, 6, sizeof others);
	state_file_is_left_adopted_and_emptied();
	sealed_pages_open_after_adoption_with_new_numbers();
	half_made_state_file_counts_as_new();
	state_file_is_private_and_regular();
	state_file_of_a_large_store_stays_small();
	contradicting_configurations_are_refused();
	changed_header_is_refused();
	impossible_chunks_are_refused();
	recovery_settles_what_was_under_way();
	damaged_files_are_refused_or_do_no_harm(1, DAMAGES);
	return tap_done();
}
