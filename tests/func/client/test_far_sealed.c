/*
 * Sealed pages against donors that are curious or malicious. A donor's memory shows no contents. A change in that
 * memory is an error, or is mended from another donor.
 */
#include "common/clock.h"
#include "tests/func/client/donor_memory.h"
#include "tests/func/client/rig.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES 48u /* the first pages of a slab */

static const char words[] = "what nobody else is to read; ";

/* Fills a page with words that are easily found. The last bytes depend on page and version. */
static void fill(uint8_t *data, uint64_t page, unsigned version)
{
	for (unsigned i = 0; i < STORE_PAGE; i++)
		data[i] = (uint8_t)words[i % (sizeof words - 1)];
	data[STORE_PAGE - 1] = (uint8_t)page;
	data[STORE_PAGE - 2] = (uint8_t)version;
}

static bool is(const uint8_t *data, uint64_t page, unsigned version)
{
	uint8_t expected[STORE_PAGE];

	fill(expected, page, version);
	return !memcmp(data, expected, STORE_PAGE);
}

static bool write_all(struct rig *rig)
{
	for (unsigned i = 0; i < PAGES; i++)
		fill(rig->bytes + (size_t)i * STORE_PAGE, i, 1);
	return rig_write(rig, 0, PAGES, rig->bytes) == 0;
}

static void open_written(struct rig *rig, unsigned donors, bool encrypt)
{
	rig_donors(rig, donors, "16M");
	rig->config.replicas = donors > 1 ? 2 : 1;
	rig->config.encrypt = encrypt;
	rig_open(rig);
	ok(write_all(rig), "%u pages are written%s", PAGES, encrypt ? ", sealed" : "");
}

/* Returns the number of pages that cannot be read or are wrong. */
static unsigned pages_bad(struct rig *rig)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < PAGES; i++)
		bad += rig_read(rig, i, 1, rig->bytes) != 0 || !is(rig->bytes, i, 1);
	return bad;
}

/* The unsealed run proves that the search would find the words. */
static void donor_memory_shows_only_unsealed_pages(bool encrypt)
{
	struct rig rig;
	uint64_t found;
	unsigned intact = 0;

	open_written(&rig, 1, encrypt);
	for (unsigned i = 0; i < PAGES; i++)
		intact += is(rig.bytes + (size_t)i * STORE_PAGE, i, 1);
	ok(intact == PAGES, "a write leaves the caller's buffer unchanged");
	ok(rig_stats(&rig).encrypted == encrypt, "the store's figures say whether it is encrypted");
	found = donor_memory_count(&rig.donors[0], words, sizeof words - 1);
	if (encrypt)
		ok(!found, "a donor's memory has no part of a sealed page");
	else
		ok(found >= PAGES * 100, "a donor's memory has the contents of unsealed pages (%llu times)",
		   (unsigned long long)found);
	ok(pages_bad(&rig) == 0, "all pages are read back as they were written");
	rig_close(&rig);
}

static uint64_t page_at(uint64_t slab, unsigned page)
{
	return slab + page * STORE_PAGE;
}

static void changed_pages_are_errors(void)
{
	uint64_t slab;
	uint8_t one[STORE_PAGE], other[STORE_PAGE], noise[STORE_PAGE];
	struct rig rig;

	open_written(&rig, 1, true);
	ok(donor_memory_slab(&rig.donors[0], PAGES, &slab), "the donor has a slab with %u pages", PAGES);
	donor_memory_get(&rig.donors[0], page_at(slab, 3), one);
	donor_memory_get(&rig.donors[0], page_at(slab, 7), other);

	memcpy(noise, one, STORE_PAGE);
	noise[100] ^= 4;
	donor_memory_put(&rig.donors[0], page_at(slab, 3), noise);
	memset(rig.bytes, 1, STORE_PAGE);
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG && rig_is_zero(rig.bytes),
	   "a sealed page changed by its donor fails with -EBADMSG, and the output is cleared");
	ok(rig_read(&rig, 0, 8, rig.bytes) == -EBADMSG, "a run with a changed page fails with -EBADMSG");

	donor_memory_put(&rig.donors[0], page_at(slab, 3), other);
	donor_memory_put(&rig.donors[0], page_at(slab, 7), one);
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG && rig_read(&rig, 7, 1, rig.bytes) == -EBADMSG,
	   "sealed pages swapped by their donor fail with -EBADMSG");

	donor_memory_put(&rig.donors[0], page_at(slab, 3), one);
	donor_memory_put(&rig.donors[0], page_at(slab, 7), other);
	ok(pages_bad(&rig) == 0, "all pages are read once the donor has restored them");

	fill(rig.bytes, 3, 2);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_read(&rig, 3, 1, rig.bytes) == 0 && is(rig.bytes, 3, 2),
	   "a sealed page is overwritten and read back");
	donor_memory_get(&rig.donors[0], page_at(slab, 3), noise);
	donor_memory_put(&rig.donors[0], page_at(slab, 3), one);
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG,
	   "older sealed bytes brought back by the donor fail with -EBADMSG");
	donor_memory_put(&rig.donors[0], page_at(slab, 3), noise);
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && is(rig.bytes, 3, 2), "the last sealed bytes of a page are read");

	fill(rig.bytes, 3, 2);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0, "the same contents are written again");
	donor_memory_get(&rig.donors[0], page_at(slab, 3), one);
	ok(memcmp(one, noise, 64), "the same contents sealed again look different at the donor");
	rig_close(&rig);
}

static void changed_replica_is_mended_from_the_other(void)
{
	uint64_t slabs[2], end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	uint8_t whole[STORE_PAGE], now[STORE_PAGE], noise[STORE_PAGE];
	struct rig rig;
	bool good = true;

	open_written(&rig, 2, true);
	ok(donor_memory_slab(&rig.donors[0], PAGES, &slabs[0]) && donor_memory_slab(&rig.donors[1], PAGES, &slabs[1]),
	   "two donors have %u pages each", PAGES);
	donor_memory_get(&rig.donors[0], page_at(slabs[0], 9), whole);
	donor_memory_get(&rig.donors[1], page_at(slabs[1], 9), now);
	ok(!memcmp(whole, now, STORE_PAGE), "both replicas have the same sealed bytes");
	memset(noise, 0x5a, STORE_PAGE);
	donor_memory_put(&rig.donors[0], page_at(slabs[0], 9), noise);
	/* The store chooses the replica that it reads. After many reads the changed one is read, too. */
	while (!rig_stats(&rig).repaired_pages && clock_now() < end)
		good &= rig_read(&rig, 9, 1, rig.bytes) == 0 && is(rig.bytes, 9, 1);
	ok(good, "a page with one changed replica is read right from the other");
	donor_memory_get(&rig.donors[0], page_at(slabs[0], 9), now);
	ok(rig_stats(&rig).repaired_pages && !memcmp(whole, now, STORE_PAGE),
	   "a changed replica is mended with the bytes sealed at its write");
	ok(pages_bad(&rig) == 0, "all pages are read after the repair");
	rig_close(&rig);
}

static bool wait_rebuilt(struct rig *rig)
{
	return wait_until(rig_stats(rig).rebuilt_pages >= PAGES && !rig_stats(rig).slabs_lacking);
}

/* Returns the donor that has no page yet. */
static unsigned donor_without(const struct rig *rig)
{
	uint64_t slab;

	for (unsigned i = 0; i < rig->donor_count; i++)
		if (!donor_memory_slab(&rig->donors[i], PAGES, &slab))
			return i;
	return 0;
}

static void rebuilt_replica_is_sealed_as_before(void)
{
	uint64_t slab;
	uint8_t sealed[STORE_PAGE], now[STORE_PAGE];
	unsigned spare, first, second;
	struct rig rig;

	open_written(&rig, 3, true);
	spare = donor_without(&rig);
	first = (spare + 1) % 3;
	second = (spare + 2) % 3;
	ok(donor_memory_slab(&rig.donors[first], PAGES, &slab), "one donor has all pages");
	donor_memory_get(&rig.donors[first], page_at(slab, 20), sealed);
	donor_kill(&rig.donors[first]);
	ok(wait_rebuilt(&rig), "the replica of a killed donor is rebuilt");
	ok(donor_memory_slab(&rig.donors[spare], PAGES, &slab), "the rebuilt replica is on the third donor");
	donor_memory_get(&rig.donors[spare], page_at(slab, 20), now);
	ok(!memcmp(sealed, now, STORE_PAGE), "the rebuilt replica has the same sealed bytes as the lost one");
	donor_kill(&rig.donors[second]);
	ok(pages_bad(&rig) == 0, "all pages are read from the rebuilt replica once the other donor is killed");
	rig_close(&rig);
}

/* --- Whole stores ------------------------------------------------------------------------------------------------- */

static void sealed_store_is_adopted_only_with_encryption(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.encrypt = true;
	rig_state(&rig);
	rig_open(&rig);
	ok(write_all(&rig), "a sealed store with a state file is written");
	rig_shut(&rig, true);
	rig.config.encrypt = false;
	ok(rig_try(&rig) == -EINVAL, "a sealed store is not adopted without encryption");
	rig.config.encrypt = true;
	rig_open(&rig);
	ok(pages_bad(&rig) == 0, "a sealed store adopted with encryption has all its pages");
	fill(rig.bytes, 3, 2);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_read(&rig, 3, 1, rig.bytes) == 0 && is(rig.bytes, 3, 2),
	   "a page is written again and read back after the adoption");
	rig_close(&rig);
}

/* The backup on the local disk holds the same bytes as the donor. */
static void backup_holds_sealed_pages(void)
{
	const char *path = folder_path("backup");
	uint64_t slab;
	uint8_t there[STORE_PAGE], here[STORE_PAGE];
	struct rig rig;
	int file;

	rig_donors(&rig, 1, "16M");
	rig.config.encrypt = true;
	rig.config.backup = path;
	rig_state(&rig); /* gives the backup a name */
	rig_open(&rig);
	ok(write_all(&rig), "a sealed store with a backup is written");
	if (!rig_becomes(&rig, backup_behind, 0) || !donor_memory_slab(&rig.donors[0], PAGES, &slab))
		abort();
	donor_memory_get(&rig.donors[0], page_at(slab, 5), there);
	file = open(path, O_RDONLY | O_CLOEXEC);
	ok(pread(file, here, STORE_PAGE, 5 * STORE_PAGE) == (ssize_t)STORE_PAGE && !memcmp(here, there, STORE_PAGE),
	   "the backup has the same sealed bytes as the donor");
	close(file);
	donor_kill(&rig.donors[0]);
	ok(pages_bad(&rig) == 0, "all pages are read from the backup once the only donor is killed");
	rig_close(&rig);
}

/* More requests at once than the queue's buffer can hold. */
static void requests_beyond_the_sealing_buffer_are_carried_out(void)
{
	const unsigned runs = RIG_BUFFER_PAGES / STORE_RUN_MAX;
	unsigned bad = 0;
	struct rig rig;

	rig_donors(&rig, 2, "64M");
	rig.config.encrypt = true;
	rig.config.replicas = 2;
	rig_open(&rig);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < RIG_BUFFER_PAGES && !round; i++)
			rig_fill(rig.bytes + (size_t)i * STORE_PAGE, i, 1);
		for (unsigned i = 0, done = 0; done < runs;) {
			struct store_io io = {.op = round ? STORE_READ : STORE_WRITE,
					      .count = STORE_RUN_MAX,
					      .page = i * STORE_RUN_MAX,
					      .data = rig.bytes + (size_t)i * STORE_RUN_MAX * STORE_PAGE,
					      .buffer = rig.buffer};
			struct store_done dones[8];
			int count;

			if (i < runs && store_submit(rig.queue, &io, 1) == 1) {
				i++;
				continue;
			}
			count = rig_wait(rig.queue, dones, 8);
			for (int j = 0; j < count; j++)
				bad += dones[j].status != 0;
			done += (unsigned)count;
		}
		ok(!bad, "%u long %s at once are carried out", runs, round ? "reads" : "writes");
		for (unsigned i = 0; i < RIG_BUFFER_PAGES && round; i++)
			bad += !rig_is(rig.bytes + (size_t)i * STORE_PAGE, i, 1);
		if (!round)
			memset(rig.bytes, 0, (size_t)RIG_BUFFER_PAGES * STORE_PAGE);
	}
	ok(!bad, "all pages of the long requests are read as they were written");
	rig_close(&rig);
}

static void sealed_pages_are_recognised(void)
{
	struct rig rig;
	uint8_t data[STORE_PAGE] __attribute__((aligned(8)));

	open_written(&rig, 1, true);
	fill(data, 5, 1);
	ok(store_same(rig.store, 5, data), "store_same() recognises the contents of a sealed page");
	data[17] ^= 1;
	ok(!store_same(rig.store, 5, data), "store_same() rejects contents with one bit changed");
	memset(data, 0, STORE_PAGE);
	ok(store_same(rig.store, PAGES + 1, data) && !store_same(rig.store, 5, data),
	   "store_same() finds zeroes in an unwritten page, and not in a written one");
	rig_close(&rig);
}

int main(void)
{
	struct rig rig;
	bool allowed;

	rig_donors(&rig, 1, "1M");
	allowed = donor_memory_opens(&rig.donors[0]);
	rig_close(&rig);
	if (!allowed)
		return tap_skip_all("another process's memory cannot be opened here");
	donor_memory_shows_only_unsealed_pages(false);
	donor_memory_shows_only_unsealed_pages(true);
	changed_pages_are_errors();
	changed_replica_is_mended_from_the_other();
	rebuilt_replica_is_sealed_as_before();
	sealed_store_is_adopted_only_with_encryption();
	backup_holds_sealed_pages();
	requests_beyond_the_sealing_buffer_are_carried_out();
	sealed_pages_are_recognised();
	return tap_done();
}
