/*
 * collapse: turns valgrind's memory trace into a trace of pages.
 *
 *     valgrind --tool=lackey --trace-mem=yes --log-fd=9 PROGRAM 9>&1 >/dev/null | collapse >TRACE
 *
 * Lackey writes a line for each access: " L ADDRESS,SIZE" for a load, " S" for a store, " M" for both. A record of the
 * trace is 32 bits: the number of the page, in order of first use, times two, plus 1 for a write. An access is left out
 * if its page is among the last RECENT pages and no bit is new: no order of eviction takes such pages.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RECENT 8u
#define SLOTS (1u << 22) /* size of the table of pages; a power of two, much larger than the number of pages */
#define STACK_TOP 0x1fu  /* valgrind puts the stack at 0x1fff000000, in bits 32 and up: it stays local */

static struct {
	uint64_t page; /* plus 1; 0 for a free slot */
	uint32_t number;
} slots[SLOTS];

static uint32_t number_of(uint64_t page)
{
	static uint32_t count;
	uint32_t slot = (uint32_t)(page * 0x9e3779b97f4a7c15u >> 42);

	while (slots[slot].page && slots[slot].page != page + 1)
		slot = (slot + 1) % SLOTS;
	if (!slots[slot].page) {
		slots[slot].page = page + 1;
		slots[slot].number = count++;
	}
	return slots[slot].number;
}

/* Returns true if the access tells nothing new. */
static bool is_recent(uint32_t number, uint32_t write)
{
	static struct {
		uint32_t number; /* plus 1 */
		uint32_t write;
	} recent[RECENT];
	static unsigned oldest;

	for (unsigned i = 0; i < RECENT; i++) {
		if (recent[i].number != number + 1)
			continue;
		if (recent[i].write >= write)
			return true;
		recent[i].write = 1;
		return false;
	}
	recent[oldest].number = number + 1;
	recent[oldest].write = write;
	oldest = (oldest + 1) % RECENT;
	return false;
}

int main(void)
{
	char line[256];

	while (fgets(line, sizeof line, stdin)) {
		bool load = line[1] == 'L';
		uint64_t address;
		uint32_t record;

		if (line[0] != ' ' || line[2] != ' ' || !(load || line[1] == 'S' || line[1] == 'M'))
			continue;
		address = strtoull(line + 3, NULL, 16);
		if (address >> 32 == STACK_TOP)
			continue;
		record = number_of(address >> 12) * 2 + !load;
		if (!is_recent(record / 2, record % 2))
			fwrite(&record, sizeof record, 1, stdout);
	}
	return 0;
}
