/* Pages that must not leave. */
#include "pager/pager.h"
#include "tests/tap.h"
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
	ok(pager_keep(over.farpage, memory) == 0 && is_here(memory), "a far page that is to be kept is brought in");
	ok(pager_keep(over.farpage, memory + STORE_PAGE + 1) == 0, "a page that is here can be kept");
	farpage_advise(over.farpage, memory, 4 * STORE_PAGE, FARPAGE_PAGEOUT);
	ok(is_here(memory) && is_here(memory + STORE_PAGE), "kept pages stay");
	ok(!is_here(memory + 2 * STORE_PAGE) && !is_here(memory + 3 * STORE_PAGE), "pages beside them leave");
	ok(memory[0] == 7 && memory[STORE_PAGE] == 7, "kept pages have their contents");
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_DISCARD);
	memset(memory, 8, STORE_PAGE);
	farpage_advise(over.farpage, memory, STORE_PAGE, FARPAGE_PAGEOUT);
	ok(!is_here(memory) && memory[0] == 8, "a page that was discarded is not kept any more");
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
	ok(here == kept, "memory beyond the budget can be used beside kept pages");
	farpage_advise(over.farpage, memory, kept * STORE_PAGE, FARPAGE_DISCARD);
	ok(pager_keep(over.farpage, memory) == 0, "discarded pages make room for others");
	ok(pager_keep(over.farpage, memory + 5 * LOCAL) == -EFAULT, "memory that nobody has cannot be kept");
	over_close(&over);
}

int main(void)
{
	kept_page_stays_until_discarded();
	budget_is_not_all_kept();
	return tap_done();
}
