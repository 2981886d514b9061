/*
 * A donor that is drained: what it has is moved however slowly replicas are to be made anew, all that is written
 * meanwhile arrives, too, and once it is over the rate is what it was.
 */
#include "client/donor/operate.h"
#include "client/far_store.h"
#include "common/clock.h"
#include "tests/func/client/rig.h"
#include "tests/tap.h"

#include <signal.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define RATE (UINT64_C(64) << 10) /* with which it would take two minutes */

static struct rig rig;
static unsigned version;

/* Everything once. */
static bool write_all(void)
{
	bool good = true;

	version++;
	for (uint64_t page = 0; page < PAGES; page++) {
		rig_fill(rig.bytes, page, version);
		good = good && rig_write(&rig, page, 1, rig.bytes) == 0;
	}
	return good;
}

static bool read_all(void)
{
	bool good = true;

	for (uint64_t page = 0; page < PAGES; page++)
		good = good && rig_read(&rig, page, 1, rig.bytes) == 0 && rig_is(rig.bytes, page, version);
	return good;
}

/* False: the donor does not take it. */
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

int main(int argc, char **argv)
{
	const struct far *far;

	daemon_program(argc > 1 ? argv[1] : NULL);
	rig_donors(&rig, 2, "16M");
	rig.config.rebuild_rate = RATE;
	rig_open(&rig, "tcp");
	far = (struct far *)rig.store;
	ok(write_all(), "two donors have what is written");
	ok(drain(0), "one is drained while it is written, and holds nothing in a while");
	ok(read_all() && rig_stats(&rig).lost_pages == 0, "nothing is lost, all is as it was written last");
	for (unsigned i = 0; i < 1000 && far->hurry; i++)
		rig_sleep_ms(10);
	ok(!far->hurry, "what is copied from now on is copied at its rate");
	daemon_stop(&rig.donors[0], SIGKILL);
	ok(read_all(), "the donor is not needed any more");
	rig_close(&rig);
	return tap_done();
}
