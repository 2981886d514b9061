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

static void test_reserve_default(void)
{
	static struct settings settings = {.donate = GIB, .slab = 64 * MIB, .reserve = UINT64_MAX};

	ok(settings_check_sizes(&settings, &machine) == 0 && settings.reserve == machine.total / 20,
	   "by default 5 %% is kept");
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

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	test_sizes();
	test_reserve_default();
	test_loopback();
	return tap_done();
}
