/*
 * uncounted: a kernel that moves pages without counting them. From 6.18 on, if Linux has to try a page again, it
 * reports EEXIST or too small a number (pager/take.c). Here ioctl(2) reports one of these for every other move.
 */
#include "pager/uffd.h"
#include "pager_over.h"
#include "tests/lib/mix.h"
#include "tests/lib/tap.h"
#include "wrap_ioctl.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#define MIB ((size_t)1 << 20)
#define ROUNDS 4

struct move {
	uint64_t dst, src, len, mode;
	int64_t move;
};
#define MOVE _IOWR(UFFDIO, 0x05, struct move)

static _Atomic unsigned moves, denied, shortened;

/* Reports that only the first @counted bytes of @move were moved. Returns -1 with errno set. */
static int misreport(struct move *move, uint64_t counted)
{
	move->move = counted ? (int64_t)counted : -EEXIST;
	errno = counted ? EAGAIN : EEXIST;
	return -1;
}

int ioctl_call(int fd, unsigned long request, void *argument)
{
	int result = __real_ioctl(fd, request, argument);
	struct move *move = argument;

	if (request != MOVE || result != 0)
		return result;
	switch (moves++ % 4) {
	case 1:
		denied++;
		return misreport(move, 0);
	case 3:
		shortened += move->len > STORE_PAGE;
		return misreport(move, move->len / STORE_PAGE / 2 * STORE_PAGE);
	default:
		return result;
	}
}

static void fill(uint64_t *words, size_t pages, uint64_t round)
{
	for (size_t page = 0; page < pages; page++)
		words[page * (STORE_PAGE / 8)] = mix(page << 8 | round);
}

static size_t wrong(const uint64_t *words, size_t pages, uint64_t round)
{
	size_t count = 0;

	for (size_t page = 0; page < pages; page++)
		count += words[page * (STORE_PAGE / 8)] != mix(page << 8 | round);
	return count;
}

int main(void)
{
	struct over over;
	struct farpage_stats stats;
	size_t pages = 24 * MIB / STORE_PAGE, bad = 0;
	int result = over_open(&over, 8 * MIB, 32 * MIB, NULL);

	if (userfaultfd_is_denied(result))
		return tap_skip_all("no right to userfaultfd");
	if (!uffd_can_move())
		return tap_skip_all("this kernel has no UFFDIO_MOVE");
	if (ok(result == 0, "a pager opens over a kernel that counts no moves")) {
		uint64_t *words = (uint64_t *)(void *)over_map(&over, pages * STORE_PAGE);

		for (uint64_t round = 1; round <= ROUNDS; round++) {
			fill(words, pages, round);
			bad += wrong(words, pages, round);
		}
		farpage_get_stats(over.farpage, &stats);
		ok(denied > 10 && shortened > 10, "many moves are reported as failed (%u) or as too short (%u)", denied,
		   shortened);
		ok(!bad, "every page holds its last contents although moves are not counted (%zu do not)", bad);
		ok(stats.dropped_pages == 0, "no page is dropped although moves are not counted (%llu)",
		   (unsigned long long)stats.dropped_pages);
	}
	over_close(&over);
	return tap_done();
}
