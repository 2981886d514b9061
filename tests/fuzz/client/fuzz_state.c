/*
 * Fuzzes the validator of state files with a good file in which some bytes have changed. The validator refuses the
 * file, or a store can use the file without harm.
 *
 * Input: a byte whose lowest bit makes the checksum of the header fit, then changes of four bytes: three bytes of
 * offset and the new byte.
 */
#include "client/page/state.h"
#include "common/log.h"
#include "tests/unit/client/tables.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const uris[TABLES_DONORS] = {"tcp://a:1", "tcp://b:1", "tcp://c:1"};
/* The size comes from the state file. */
static const struct far_config config = {.donors = uris, .donor_count = TABLES_DONORS, .replicas = 2};
static const uint8_t id[WIRE_ID_SIZE];
static const uint64_t contents[STORE_PAGE / sizeof(uint64_t)] = {1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
	if (!good)
		abort();
}

static struct state *file_open(int file)
{
	struct state *state;
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	must(state_open(path, &state) == 0);
	return state;
}

static int file_make(void)
{
	int file = memfd_create("state", MFD_CLOEXEC);
	struct state *state = file_open(file);
	struct chunk_table table;
	struct integrity integrity;

	must(state_create(state, &config, TABLES_PAGES, TABLES_CHUNK_PAGES, id) == 0);
	state_tables(state, &table, &integrity);
	tables_fill(&table, &integrity, contents);
	state_close(state, false);
	return file;
}

static void header_fit(int file)
{
	static struct state_header header, fixed;
	size_t first = offsetof(struct state_header, pages), end = offsetof(struct state_header, incarnations);

	must(pread(file, &header, sizeof header, 0) == sizeof header);
	fixed = header;
	for (unsigned i = header.donor_count; i < STATE_DONORS; i++)
		memset(fixed.uris[i], 0, sizeof fixed.uris[i]);
	header.sum = XXH3_64bits((const uint8_t *)&fixed + first, end - first);
	must(pwrite(file, &header, sizeof header, 0) == sizeof header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chunk_table table;
	struct integrity integrity;
	struct state *state;
	off_t length;
	uint64_t lost;
	int file;

	if (!size)
		return 0;
	log_set_fd(-1);
	file = file_make();
	length = lseek(file, 0, SEEK_END);
	for (size_t i = 1; i + 4 <= size; i += 4) {
		off_t offset = data[i] | data[i + 1] << 8 | data[i + 2] << 16;

		must(pwrite(file, &data[i + 3], 1, offset % length) == 1);
	}
	if (data[0] & 1)
		header_fit(file);
	state = file_open(file);
	if (!state_is_new(state) && state_adopt(state, &config) == 0 && state_recover(state, &lost) == 0) {
		state_tables(state, &table, &integrity);
		must(table.replicas == 2 && integrity.pages > 0);
		/* tables_use() knows only chunks of one size. */
		if (table.pages == TABLES_CHUNK_PAGES)
			tables_use(&table, &integrity, contents);
	}
	state_close(state, false);
	close(file);
	return 0;
}
