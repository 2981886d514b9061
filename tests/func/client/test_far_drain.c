/*
 * A drained donor's pages are moved soon, however low the rebuild rate is. No write is lost meanwhile. After the
 * drain the rebuild keeps to its rate again.
 */
#include "client/donor/operate.h"
#include "client/far_store.h"
#include "common/clock.h"
#include "tests/func/client/rig.h"

#include <signal.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define RATE (UINT64_C(64) << 10) /* a rate that would take two minutes */

static struct rig rig;
static unsigned version;

/* Writes every page once. */
static bool write_all(void)
{
	return !rig_put_each(&rig, 0, PAGES, ++version);
}

static bool read_all(void)
{
	return !rig_wrong(&rig, 0, PAGES, version);
}

/* Sends the donor a DRAIN. Returns false if the donor refuses it. */
static bool order(struct operate *operate, enum wire_drain what, unsigned *ret_slabs)
{
	struct wire_message question = {.type = WIRE_DRAIN}, answer;

	question.drain.what = what;
	if (operate_ask(operate, &question, &answer) < 0)
		return false;
	*ret_slabs = answer.draining.slabs;
	return true;
}

static bool drain(unsigned donor)
{
	const uint64_t end = clock_now() + UINT64_C(60000000000);
	struct operate *operate;
	unsigned slabs = 0;
	bool good = operate_open(&rig.config, rig.donors[donor].uri, &operate) == 0;

	good = good && order(operate, WIRE_DRAIN_WAIT, &slabs);
	while (good && slabs && clock_now() < end)
		good = write_all() && order(operate, WIRE_DRAIN_ASK, &slabs);
	operate_close(operate);
	return good && !slabs;
}

int main(void)
{
	const struct far *far;

	rig_donors(&rig, 2, "16M");
	rig.config.rebuild_rate = RATE;
	rig_open(&rig);
	far = (struct far *)rig.store;
	ok(write_all(), "two donors have all written pages");
	ok(drain(0), "a donor drained amid writes holds no slab in the end");
	ok(read_all() && rig_stats(&rig).lost_pages == 0,
	   "every page has its last contents after the drain, and none is lost");
	ok(wait_until(!far->hurry), "the rebuild keeps to its rate again after the drain");
	donor_kill(&rig.donors[0]);
	ok(read_all(), "all pages are read once the drained donor is killed");
	rig_close(&rig);
	return tap_done();
}
