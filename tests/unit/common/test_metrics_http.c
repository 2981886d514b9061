/* metrics_http: which addresses --metrics takes. tests/func/cli/test_metrics.py has the rest, over a socket. */
#include "common/metrics_http.h"
#include "tests/lib/tap.h"

int main(void)
{
	static const char *const good[] = {"9470",           "0",          "127.0.0.1:9470",
					   "localhost:9470", "[::1]:9470", "0.0.0.0:9470"};
	static const char *const bad[] = {
	    "",          "abc",   "127.0.0.1",    "[::1]",    "::1:9470", "-1",           "65536",
	    "9470 ",     ":9470", "example:9470", "1.2.3:80", "94\n70",   "9470/metrics", "http://127.0.0.1:9470",
	    "127.0.0.1:"};

	for (unsigned i = 0; i < sizeof good / sizeof *good; i++)
		ok(metrics_http_check(good[i]) == 0, "'%s' is an address for metrics", good[i]);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(metrics_http_check(bad[i]) < 0, "bad address %u for metrics is refused", i);
	return tap_done();
}
