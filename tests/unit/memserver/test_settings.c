/* settings: checks which settings make sense together. The messages are checked from outside, in suite func. */
#include "common/log.h"
#include "memserver/settings.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>

#define GIB UINT64_C(1073741824)
#define MIB UINT64_C(1048576)

static const struct machine_memory machine = {.total = 16 * GIB, .available = 12 * GIB};

static int check(uint64_t donate, uint64_t slab, uint64_t reserve, uint64_t quota)
{
	static struct settings settings;

	settings = (struct settings){.donate = donate, .slab = slab, .reserve = reserve, .quota = quota};
	return settings_check_sizes(&settings, &machine);
}

static void sizes_that_do_not_fit_together_are_refused(void)
{
	ok(check(GIB, 64 * MIB, GIB, 0) == 0, "donating 1G of 16G is accepted");
	ok(check(0, 64 * MIB, GIB, 0) == -EINVAL, "donating 0 is refused");
	ok(check(32 * MIB, 64 * MIB, GIB, 0) == -EINVAL, "donating less than a slab is refused");
	ok(check(64 * MIB, 64 * MIB, GIB, 0) == 0, "donating just one slab is accepted");
	ok(check(15 * GIB, 64 * MIB, GIB, 0) == 0, "donating all but the reserve is accepted");
	ok(check(15 * GIB + MIB, 64 * MIB, GIB, 0) == -EINVAL, "donating a part of the reserve is refused");
	ok(check(16 * GIB, 64 * MIB, 32 * GIB, 0) == -EINVAL, "a reserve larger than the machine is refused");
	ok(check(GIB, 48 * MIB, GIB, 0) == -EINVAL, "a slab size that is no power of two is refused");
	ok(check(GIB, MIB / 2, GIB, 0) == -EINVAL, "a slab size of 512K is refused as too small");
	ok(check(8 * GIB, 2 * GIB, GIB, 0) == -EINVAL, "a slab size of 2G is refused as too large");
	ok(check(GIB, 0, GIB, 0) == -EINVAL, "a slab size of 0 is refused");
	ok(check(GIB, 64 * MIB, GIB, MIB) == -EINVAL, "a quota below a slab is refused");
}

static struct settings parsed;

static int parse(const char *donate, const char *reserve)
{
	parsed = (struct settings){.donate_text = donate, .reserve_text = reserve, .slab = 64 * MIB};
	return settings_parse_sizes(&parsed, &machine);
}

/* Returns true if the texts are parsed to these sizes in MiB. */
static bool comes_to(const char *donate, const char *reserve, uint64_t donates, uint64_t reserves)
{
	return parse(donate, reserve) == 0 && parsed.donate == donates * MIB && parsed.reserve / MIB == reserves;
}

static bool is_refused(const char *donate, const char *reserve)
{
	return parse(donate, reserve) == -EINVAL;
}

static void sizes_are_parsed_from_their_texts(void)
{
	ok(comes_to("1G", NULL, 1024, 16 * 1024 / 20), "the reserve is 5 %% of memory by default");
	ok(comes_to("1G", "2G", 1024, 2048), "a reserve may be a size");
	ok(comes_to("1G", "25%", 1024, 4096), "a reserve may be a part of memory in percent");
	ok(comes_to("1G", "0%", 1024, 0) && comes_to("1G", "0", 1024, 0), "a reserve may be 0 or 0 %%");
	ok(comes_to("auto", "4G", 12 * 1024, 4096), "donating \"auto\" is all memory above a reserve given as a size");
	ok(comes_to("auto", "25%", 12 * 1024, 4096),
	   "donating \"auto\" is all memory above a reserve given in percent");
	ok(comes_to("auto", NULL, 230 * 64, 16 * 1024 / 10),
	   "donating \"auto\" keeps 10 %% by default and rounds down to whole slabs");
	ok(is_refused("auto", "16G"), "donating \"auto\" is refused if the reserve is all memory");
	ok(is_refused("auto", "100%"), "donating \"auto\" is refused if the reserve is 100 %%");
	ok(is_refused("1G", "101%") && is_refused("1G", "-1%") && is_refused("1G", "5 %") && is_refused("1G", "%") &&
	       is_refused("1G", "5%%"),
	   "a malformed percentage is refused as a reserve");
	ok(is_refused("1G", "some") && is_refused("1G", "auto"), "a reserve that is no size is refused");
	ok(is_refused("lots", NULL) && is_refused("10%", NULL), "a donation that is no size is refused");
	ok(comes_to(NULL, NULL, 0, 16 * 1024 / 20), "a missing donation is parsed as 0");
}

static int loopback(const char *uri)
{
	bool is = false;
	int status = settings_is_loopback(uri, &is);

	return status < 0 ? status : is;
}

static void loopback_addresses_are_recognised(void)
{
	ok(loopback("tcp://127.0.0.1:7470") == 1, "127.0.0.1 is a loopback address");
	ok(loopback("tcp://127.8.9.10") == 1, "127.8.9.10 is a loopback address");
	ok(loopback("tcp://[::1]:7470") == 1, "::1 is a loopback address");
	ok(loopback("tcp://localhost") == 1, "localhost is a loopback address");
	ok(loopback("tcp://0.0.0.0:7470") == 0, "0.0.0.0 is no loopback address");
	ok(loopback("tcp://[::]:7470") == 0, ":: is no loopback address");
	ok(loopback("tcp://192.0.2.1:7470") == 0, "192.0.2.1 is no loopback address");
	ok(loopback("7470") == -EINVAL, "a port alone is refused as an address");
	ok(loopback("tcp://127.0.0.1:port") == -EINVAL, "an address with a malformed port is refused");
}

static int domain(const char *name)
{
	static struct settings settings;

	settings.failure_domain = name;
	return settings_check_failure_domain(&settings);
}

static void only_valid_failure_domains_are_accepted(void)
{
	ok(domain(NULL) == 0, "a failure domain may be left out");
	ok(domain("rack1") == 0 && domain("DE.fra_2-7") == 0 && domain("0123456789012345678901234567890") == 0,
	   "a failure domain is a name of up to 31 letters, digits and . _ -");
	ok(domain("") == -EINVAL && domain("01234567890123456789012345678901") == -EINVAL,
	   "a failure domain that is empty or longer is refused");
	ok(domain("rack 1") == -EINVAL && domain("rack/1") == -EINVAL && domain("\"") == -EINVAL &&
	       domain("rack1\n") == -EINVAL && domain("r\303\244ck") == -EINVAL,
	   "a failure domain with other characters is refused");
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	sizes_that_do_not_fit_together_are_refused();
	sizes_are_parsed_from_their_texts();
	loopback_addresses_are_recognised();
	only_valid_failure_domains_are_accepted();
	return tap_done();
}
