/* The address of a donor changes in one version of the donors file. The donor leaves, and is used at
   its new address. */
#include "tests/func/client/proxy.h"
#include "tests/func/client/rig.h"
#include "tests/func/client/traffic.h"
#include "tests/lib/folder.h"
#include "tests/lib/wait.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct traffic traffic;
static struct proxy proxy;
static struct rig rig;
static char old[64]; /* the first donor's address through the proxy */
static const char *first, *second, *third;

/* Replaces the donors file, by rename(2), with one that names these donors. @last may be NULL. */
static void name(const char *one, const char *other, const char *last)
{
	char text[256];

	snprintf(text, sizeof text, "%s\n%s\n%s\n", one, other, last ? last : "");
	folder_put("fresh", text);
	if (rename(folder_path("fresh"), folder_path("donors")) < 0)
		tap_bail("no donors file");
}

static bool answers(const char *uri)
{
	struct far_donor_info donors[FAR_DONORS_MAX];
	bool good = false;

	for (unsigned i = 0, count = far_donors(rig.store, donors, FAR_DONORS_MAX); i < count; i++)
		good |= strcmp(donors[i].uri, uri) == 0 && donors[i].status == 0 && !donors[i].away;
	return good;
}

/* Waits until the store has exactly these donors, and all answer. @last may be NULL. */
static bool donors_become(const char *one, const char *other, const char *last)
{
	return wait_until(far_donors(rig.store, NULL, 0) == (last ? 3 : 2) && answers(one) && answers(other) &&
			  (!last || answers(last)));
}

/* Each test has donors of its own. Donors that had lent slabs before might still be clearing them. */
static void start_donors(void)
{
	rig_donors(&rig, 3, "6M");
	first = rig.donors[0].uri;
	second = rig.donors[1].uri;
	third = rig.donors[2].uri;
	proxy_start(&proxy, rig.donors[0].port);
	snprintf(old, sizeof old, "tcp://127.0.0.1:%u", proxy.port);
	rig.config.pages = TRAFFIC_PAGES;
	rig.config.donors_file = folder_path("donors");
	rig.config.timeout_ms = 20000; /* longer than tries of an address that is gone */
}

static void stop_donors(void)
{
	rig_close(&rig);
	proxy_stop(&proxy);
}

static void open_through_proxy(uint64_t seed)
{
	name(old, second, NULL);
	rig_open(&rig);
	if (!donors_become(old, second, NULL))
		tap_bail("the store does not reach its donors");
	traffic_begin(&traffic, &rig, seed);
	log_begin();
}

/* The second donor has not enough room for all pages, so some pages stay on the first one until there is a third. */
static void a_changed_address_is_used(void)
{
	start_donors();
	open_through_proxy(1);
	name(first, second, NULL);
	ok(log_wait("under another address", 1, NULL), "the log says that a new address leads to a donor that leaves");
	proxy_die(&proxy, true);
	traffic_run(&traffic, 300);
	ok(traffic_good(&traffic), "no page is lost if the old address is gone by then");
	name(first, second, third);
	ok(log_wait("is let go", 1, NULL), "the old address is let go when a third donor has room for its pages");
	ok(donors_become(first, second, third), "the donor is used at its new address");
	traffic_run(&traffic, 100);
	ok(traffic_good(&traffic), "no page is lost afterwards");
	ok(log_count("name it once") == 0, "a changed address does not count as a donor that is named twice");
	stop_donors();
}

static void an_address_that_changes_back_is_used(void)
{
	start_donors();
	open_through_proxy(2);
	name(first, second, NULL);
	ok(log_wait("under another address", 1, NULL), "the address has changed");
	name(old, second, NULL);
	ok(donors_become(old, second, NULL), "a donor whose address changes back is used at its old address");
	traffic_run(&traffic, 100);
	ok(traffic_good(&traffic), "no page is lost by changing an address back");
	stop_donors();
}

static void two_addresses_of_one_donor_are_refused(void)
{
	start_donors();
	open_through_proxy(3);
	name(old, second, first);
	ok(log_wait("name it once", 1, NULL), "a second address of a donor is refused");
	traffic_run(&traffic, 100);
	name(first, second, third);
	ok(donors_become(first, second, third), "the second address is used once the first is removed");
	ok(traffic_good(&traffic), "no page is lost by a second address");
	stop_donors();
}

static void a_changed_address_is_used_after_an_adoption(void)
{
	start_donors();
	rig_state(&rig);
	open_through_proxy(4);
	rig_shut(&rig, true);
	name(first, second, NULL);
	proxy_die(&proxy, true);
	rig_open(&rig);
	ok(log_wait("under another address", 1, NULL) && !traffic_check(&traffic),
	   "a store that is adopted with a changed address has its pages, although the old address is gone");
	name(first, second, third);
	ok(donors_become(first, second, third) && !traffic_check(&traffic),
	   "the donor is used at its new address after the adoption");
	stop_donors();
}

int main(void)
{
	log_keep();
	a_changed_address_is_used();
	an_address_that_changes_back_is_used();
	two_addresses_of_one_donor_are_refused();
	a_changed_address_is_used_after_an_adoption();
	return tap_done();
}
