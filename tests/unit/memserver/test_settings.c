/* settings: what makes sense together; the messages themselves are checked from outside, in func. */
#include "common/log.h"
#include "memserver/settings.h"
#include "tests/tap.h"

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

static void test_sizes(void)
{
	ok(check(GIB, 64 * MIB, GIB, 0) == 0, "a gibibyte of sixteen");
	ok(check(0, 64 * MIB, GIB, 0) == -EINVAL, "nothing");
	ok(check(32 * MIB, 64 * MIB, GIB, 0) == -EINVAL, "less than a slab");
	ok(check(64 * MIB, 64 * MIB, GIB, 0) == 0, "just one slab");
	ok(check(15 * GIB, 64 * MIB, GIB, 0) == 0, "all but the reserve");
	ok(check(15 * GIB + MIB, 64 * MIB, GIB, 0) == -EINVAL, "some of the reserve");
	ok(check(16 * GIB, 64 * MIB, 32 * GIB, 0) == -EINVAL, "a reserve larger than the machine");
	ok(check(GIB, 48 * MIB, GIB, 0) == -EINVAL, "a slab that is no power of two");
	ok(check(GIB, MIB / 2, GIB, 0) == -EINVAL, "a slab too small");
	ok(check(8 * GIB, 2 * GIB, GIB, 0) == -EINVAL, "a slab too large");
	ok(check(GIB, 0, GIB, 0) == -EINVAL, "no slab");
	ok(check(GIB, 64 * MIB, GIB, MIB) == -EINVAL, "a quota below a slab");
}

/* What the texts come to; donate and reserve in MiB. */
static bool comes_to(const char *donate, const char *reserve, uint64_t donates, uint64_t reserves)
{
	static struct settings settings;

	settings = (struct settings){.donate_text = donate, .reserve_text = reserve, .slab = 64 * MIB};
	if (settings_parse_sizes(&settings, &machine) < 0)
		return false;
	return settings.donate == donates * MIB && settings.reserve / MIB == reserves;
}

static void test_texts(void)
{
	ok(comes_to("1G", NULL, 1024, 16 * 1024 / 20), "by default 5 %% is kept");
	ok(comes_to("1G", "2G", 1024, 2048), "a reserve as a size");
	ok(comes_to("1G", "25%", 1024, 4096), "as a part");
	ok(comes_to("1G", "0%", 1024, 0) && comes_to("1G", "0", 1024, 0), "as nothing");
	ok(comes_to("auto", "4G", 12 * 1024, 4096), "auto: what the reserve leaves");
	ok(comes_to("auto", "25%", 12 * 1024, 4096), "the same");
	ok(comes_to("auto", NULL, 230 * 64, 16 * 1024 / 10), "of which 10 %% is kept by default, and slabs are whole");
	ok(!comes_to("auto", "16G", 0, 16384), "auto, and nothing left");
	ok(!comes_to("auto", "100%", 0, 16384), "the same");
	ok(!comes_to("1G", "101%", 0, 0) && !comes_to("1G", "-1%", 0, 0) && !comes_to("1G", "5 %", 0, 0) &&
	       !comes_to("1G", "%", 0, 0) && !comes_to("1G", "5%%", 0, 0),
	   "parts that are none");
	ok(!comes_to("1G", "some", 0, 0) && !comes_to("1G", "auto", 0, 0), "a reserve that is no size");
	ok(!comes_to("lots", NULL, 0, 0) && !comes_to("10%", NULL, 0, 0), "a size that is none");
	ok(comes_to(NULL, NULL, 0, 16 * 1024 / 20), "nothing given: for the next check to refuse");
}

static int loopback(const char *uri)
{
	bool is = false;
	int status = settings_is_loopback(uri, &is);

	return status < 0 ? status : is;
}

static void test_loopback(void)
{
	ok(loopback("tcp://127.0.0.1:7470") == 1, "127.0.0.1");
	ok(loopback("tcp://127.8.9.10") == 1, "127.8.9.10");
	ok(loopback("tcp://[::1]:7470") == 1, "::1");
	ok(loopback("tcp://localhost") == 1, "localhost");
	ok(loopback("tcp://0.0.0.0:7470") == 0, "0.0.0.0");
	ok(loopback("tcp://[::]:7470") == 0, "::");
	ok(loopback("tcp://192.0.2.1:7470") == 0, "192.0.2.1");
	ok(loopback("7470") == -EINVAL, "a port alone");
	ok(loopback("tcp://127.0.0.1:port") == -EINVAL, "a port that is none");
}

static int domain(const char *name)
{
	static struct settings settings;

	settings.domain = name;
	return settings_check_failure_domain(&settings);
}

static void test_domain(void)
{
	ok(domain(NULL) == 0, "no failure domain is needed");
	ok(domain("rack1") == 0 && domain("DE.fra_2-7") == 0 && domain("0123456789012345678901234567890") == 0,
	   "names of up to 31 letters, digits, and . _ -");
	ok(domain("") == -EINVAL && domain("01234567890123456789012345678901") == -EINVAL,
	   "neither none nor longer ones");
	ok(domain("rack 1") == -EINVAL && domain("rack/1") == -EINVAL && domain("\"") == -EINVAL &&
	       domain("rack1\n") == -EINVAL && domain("r\303\244ck") == -EINVAL,
	   "nor of anything else");
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	test_sizes();
	test_texts();
	test_loopback();
	test_domain();
	return tap_done();
}
