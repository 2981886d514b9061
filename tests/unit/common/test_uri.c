/* uri: splits addresses as people write them. Refuses all other texts, and writes nothing for those. */
#include "common/uri.h"
#include "tests/lib/tap.h"

#include <errno.h>

static void addresses_are_split_into_scheme_host_and_port(void)
{
	static const struct {
		const char *text, *scheme, *host;
		uint16_t port;
	} good[] = {
	    {"tcp://127.0.0.1:7470", "tcp", "127.0.0.1", 7470},
	    {"tcp://127.0.0.1", "tcp", "127.0.0.1", 99},
	    {"tcp://127.0.0.1:0", "tcp", "127.0.0.1", 0},
	    {"TCP://donor-1.example.org:65535", "tcp", "donor-1.example.org", 65535},
	    {"a+b-c.d://localhost:1", "a+b-c.d", "localhost", 1},
	    {"rdma://[::1]:7470", "rdma", "::1", 7470},
	    {"rdma://[fe80::1%eth0]", "rdma", "fe80::1%eth0", 99},
	    {"tcp://[::ffff:10.0.0.7]:5", "tcp", "::ffff:10.0.0.7", 5},
	    {"auto://under_score", "auto", "under_score", 99},
	    {"tcp://1st", "tcp", "1st", 99},
	};
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
		struct uri uri;
		int error = uri_parse(good[i].text, 99, &uri);

		ok(!error && !strcmp(uri.scheme, good[i].scheme) && !strcmp(uri.host, good[i].host) &&
		       uri.port == good[i].port,
		   "'%s' is split into scheme, host and port", good[i].text);
	}
}

static void malformed_addresses_are_refused(void)
{
	static const char *const bad[] = {
	    "",
	    "tcp",
	    "tcp:",
	    "tcp://",
	    "://host",
	    "127.0.0.1:7470",
	    "1tcp://host",
	    "t cp://host",
	    "tcp://host:",
	    "tcp://host:x",
	    "tcp://host:-1",
	    "tcp://host: 1",
	    "tcp://host:65536",
	    "tcp://host:000001",
	    "tcp://host:1/",
	    "tcp://host/",
	    "tcp://user@host",
	    "tcp://ho st",
	    "tcp://::1:7470",
	    "tcp://[::1",
	    "tcp://[",
	    "tcp://[]",
	    "tcp://[]:1",
	    "tcp://[::1]x",
	    "tcp://[::1]1",
	    "tcp://[1.2.3.4]",
	    "tcp://[::1%]",
	    "tcp://[::g]",
	    "tcp://[host]",
	    "tcp://10.0.0.256",
	    "tcp://10.0.0",
	    "tcp://1",
	    "a-scheme-too-long-to-be-one://host",
	};

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct uri uri = {.port = 7};

		ok(uri_parse(bad[i], 99, &uri) == -EINVAL && uri.port == 7 && !uri.host[0],
		   "the address '%s' is refused", bad[i]);
	}
}

static void addresses_are_written_as_they_were_read(void)
{
	static const char *const texts[] = {"tcp://10.0.0.7:7470", "rdma://[fe80::1%eth0]:0", "auto://donor:65535"};

	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		char text[URI_TEXT_MAX];
		struct uri uri;

		ok(uri_parse(texts[i], 1, &uri) == 0, "the address '%s' is parsed", texts[i]);
		uri_format(&uri, text);
		ok(strcmp(text, texts[i]) == 0, "a parsed address is written as it was read: '%s'", text);
	}
}

static void hosts_are_bounded(void)
{
	char text[URI_HOST_MAX + 16] = "tcp://";
	struct uri uri;

	memset(text + 6, 'a', URI_HOST_MAX - 1);
	ok(!uri_parse(text, 1, &uri) && strlen(uri.host) == URI_HOST_MAX - 1, "the longest host is accepted");
	text[6 + URI_HOST_MAX - 1] = 'a';
	ok(uri_parse(text, 1, &uri) == -EINVAL, "a host one byte longer than the longest is refused");
}

int main(void)
{
	addresses_are_split_into_scheme_host_and_port();
	malformed_addresses_are_refused();
	hosts_are_bounded();
	addresses_are_written_as_they_were_read();
	return tap_done();
}
