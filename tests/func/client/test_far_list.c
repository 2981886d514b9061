/* A store with a donors file is left and adopted. In between, the file has changed to other donors, or is bad. */
#include "common/clock.h"
#include "tests/func/client/rig.h"
#include "tests/func/client/traffic.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct traffic traffic;
static char path[64];
static int file;

/* Names donors @first to @last of the rig in the donors file. */
static void name(const struct rig *rig, unsigned first, unsigned last)
{
	if (ftruncate(file, 0) < 0 || lseek(file, 0, SEEK_SET) < 0)
		tap_bail("no donors file");
	for (unsigned i = first; i <= last; i++)
		dprintf(file, "%s\n", rig->donors[i].uri);
}

/* Waits until the store has @count donors, all of which answer. */
static bool donors_become(const struct rig *rig, unsigned count)
{
	const uint64_t end = clock_now() + 20 * SECOND;
	bool good = false;

	while (!good && clock_now() < end) {
		struct far_donor_info donors[FAR_DONORS_MAX];

		good = far_donors(rig->store, donors, FAR_DONORS_MAX) == count;
		for (unsigned i = 0; good && i < count; i++)
			good = donors[i].status == 0 && !donors[i].away;
		usleep(10000);
	}
	return good;
}

static bool holds(const struct rig *rig, unsigned index)
{
	struct far_donor_info donors[FAR_DONORS_MAX];
	unsigned count = far_donors(rig->store, donors, FAR_DONORS_MAX);
	bool found = false;

	for (unsigned i = 0; i < count; i++)
		found |= strcmp(donors[i].uri, rig->donors[index].uri) == 0;
	return found;
}

/* Opens or adopts the store, with the rig's first donors on the command line. */
static void open_with(struct rig *rig, unsigned donors)
{
	unsigned all = rig->donor_count;

	rig->donor_count = rig->config.donor_count = donors;
	rig_open(rig);
	rig->donor_count = all;
}

int main(void)
{
	struct rig rig;

	log_keep();
	file = memfd_create("donors", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	rig_donors(&rig, 3, "32M");
	rig_state(&rig);
	rig.config.pages = TRAFFIC_PAGES;
	rig.config.donors_file = path;

	name(&rig, 0, 1);
	open_with(&rig, 2);
	traffic_begin(&traffic, &rig, 1);
	ok(donors_become(&rig, 2), "a store uses the donors of its file");
	rig_shut(&rig, true);

	name(&rig, 1, 2);
	open_with(&rig, 2);
	ok(donors_become(&rig, 2) && !holds(&rig, 0) && holds(&rig, 2),
	   "a store that is adopted with another file adds a donor and lets one go");
	ok(!traffic_check(&traffic), "all pages are right after they have moved");
	ok(donor_stop(&rig.donors[0], 15) == 0, "the donor that was let go ends");
	rig.donors[0].pid = 0;
	traffic_run(&traffic, 30);
	ok(!traffic.failed && !traffic.wrong, "the store goes on without the donor that was let go");
	rig_shut(&rig, true);

	if (ftruncate(file, 0) < 0)
		tap_bail("no donors file");
	log_begin();
	open_with(&rig, 0);
	ok(log_count("names no donor") > 0 && !traffic_check(&traffic),
	   "a store is adopted with its own donors if the file is bad, and none is named otherwise");
	rig_close(&rig);
	return tap_done();
}
