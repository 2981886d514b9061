/* keep: pages that must not leave local memory. */
#include "pager/pager.h"
#include "tests/lib/tap.h"
#include "tests/unit/pager/pager_over.h"

#include <errno.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define LOCAL (8 * MIB)

static bool is_here(void *address)
{
	unsigned char here = 0;

	return mincore(address, STORE_PAGE, &here) == 0 && here & 1;
}

static void kept_page_stays_until_discarded(void)
{
	struct over over;

	if (over_open(&over, LOCAL, 64 * MIB, NULL))
		abort();
	char *memory = over_map(&over, 4 * STORE_PAGE);
	memset(memory, 7, 4 * STORE_PAGE);
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_PAGEOUT);
	ok(pager_keep(over.farpage, memory) == 0 && is_here(memory), "keeping a far page brings the page in");
	ok(pager_keep(over.farpage, memory + STORE_PAGE + 1) == 0, "keeping a resident page succeeds");
	farpage_advise(over.farpage, memory, 4 * STORE_PAGE, FARPAGE_PAGEOUT);
	ok(is_here(memory) && is_here(memory + STORE_PAGE), "kept pages stay resident when their range is sent out");
	ok(!is_here(memory + 2 * STORE_PAGE) && !is_here(memory + 3 * STORE_PAGE),
	   "pages beside kept pages leave when their range is sent out");
	ok(memory[0] == 7 && memory[STORE_PAGE] == 7, "kept pages keep their contents");
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_DISCARD);
	memset(memory, 8, STORE_PAGE);
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_PAGEOUT);
	ok(!is_here(memory) && memory[0] == 8, "a page is not kept after a discard, so it leaves");
	over_close(&over);
}

static void budget_is_not_all_kept(void)
{
	struct over over;
	size_t kept = 0;
	int result;

	if (over_open(&over, LOCAL, 64 * MIB, NULL))
		abort();
	char *memory = over_map(&over, 4 * LOCAL);
	while ((result = pager_keep(over.farpage, memory + kept * STORE_PAGE)) == 0)
		kept++;
	ok(result == -ENOSPC && kept > 100 && kept <= LOCAL / STORE_PAGE / 4,
	   "at most a quarter of the budget is kept (%zu)", kept);
	memset(memory, 1, 4 * LOCAL);
	size_t here = 0;
	for (size_t page = 0; page < kept; page++)
		here += is_here(memory + page * STORE_PAGE);
	ok(here == kept, "kept pages stay resident while memory beyond the budget is used");
	farpage_advise(over.farpage, memory, kept * STORE_PAGE, FARPAGE_DISCARD);
	ok(pager_keep(over.farpage, memory) == 0, "discarding kept pages makes room to keep others");
	ok(pager_keep(over.farpage, memory + 5 * LOCAL) == -EFAULT, "keeping memory that is not mapped gets -EFAULT");
	over_close(&over);
}

int main(void)
{
	kept_page_stays_until_discarded();
	budget_is_not_all_kept();
	return tap_done();
}
