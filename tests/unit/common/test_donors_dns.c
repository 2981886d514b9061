/* Unit tests of common/donors_dns: the donors in answers of DNS servers, which may be anything. */
#include "common/donors_dns.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <arpa/nameser.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#define NAME "dns+srv://example.com"

struct answer {
	unsigned char bytes[65535];
	size_t size;
};

static void put16(struct answer *answer, unsigned value)
{
	ns_put16(value, answer->bytes + answer->size);
	answer->size += 2;
}

static void put_name(struct answer *answer, const char *name)
{
	int length =
	    ns_name_compress(name, answer->bytes + answer->size, sizeof answer->bytes - answer->size, NULL, NULL);

	assert(length > 0);
	answer->size += (size_t)length;
}

static struct answer *answer_make(void)
{
	static struct answer answer;

	answer = (struct answer){.size = NS_HFIXEDSZ};
	ns_put16(0x8180, answer.bytes + 2); /* an answer without error */
	return &answer;
}

static void record_add(struct answer *answer, unsigned type, unsigned port, const char *target)
{
	size_t length;

	put_name(answer, "_farpage._tcp.example.com");
	put16(answer, type);
	put16(answer, ns_c_in);
	put16(answer, 0);
	put16(answer, 60); /* seconds to live, 32 bits */
	length = answer->size;
	answer->size += 2;
	put16(answer, 10);
	put16(answer, 5);
	put16(answer, port);
	put_name(answer, target);
	ns_put16((unsigned)(answer->size - length - 2), answer->bytes + length);
	ns_put16(ns_get16(answer->bytes + 6) + 1u, answer->bytes + 6); /* number of answers */
}

static int parse(const struct answer *answer, struct config_list *donors)
{
	return donors_dns_parse(NAME, "tcp", answer->bytes, answer->size, donors);
}

static void list_free(struct config_list *donors, unsigned from)
{
	for (unsigned i = from; i < donors->count; i++)
		free((char *)(uintptr_t)donors->items[i]);
	donors->count = 0;
}

static void donors_are_sorted_behind_those_of_the_list(void)
{
	struct answer *answer = answer_make();
	struct config_list donors = {.items = {"tcp://z:1"}, .count = 1};

	record_add(answer, ns_t_srv, 7470, "b.example.com");
	record_add(answer, ns_t_srv, 7471, "a.example.com");
	ok(parse(answer, &donors) == 0 && donors.count == 3, "two records give two donors");
	ok(strcmp(donors.items[0], "tcp://z:1") == 0, "the donors of the list stay first");
	ok(strcmp(donors.items[1], "tcp://a.example.com:7471") == 0, "donors of DNS are sorted by their addresses");
	ok(strcmp(donors.items[2], "tcp://b.example.com:7470") == 0, "each donor has the port of its record");
	list_free(&donors, 1);
}

static void records_that_name_no_donor_are_skipped(void)
{
	struct answer *answer = answer_make();
	struct config_list donors = {.count = 0};

	record_add(answer, ns_t_txt, 7470, "text.example.com");
	record_add(answer, ns_t_srv, 7470, ".");
	record_add(answer, ns_t_srv, 0, "zero.example.com");
	record_add(answer, ns_t_srv, 7470, "bad\\032name.example.com");
	ok(parse(answer, &donors) == -EINVAL && donors.count == 0,
	   "records of other types, of no service, without a port, and with a bad name give no donor");
	record_add(answer, ns_t_srv, 7470, "good.example.com");
	ok(parse(answer, &donors) == 0 && donors.count == 1, "a good record among them gives one donor");
	list_free(&donors, 0);
}

static void too_many_donors_are_refused(void)
{
	struct answer *answer = answer_make();
	struct config_list donors = {.items = {"tcp://z:1"}, .count = 1};

	for (unsigned i = 0; i < CONFIG_LIST_MAX; i++)
		record_add(answer, ns_t_srv, 7470 + i, "a.example.com");
	ok(parse(answer, &donors) == -EINVAL && donors.count == 1, "donors beyond the list's room are refused");
}

static void cut_answers_are_refused(void)
{
	struct answer *answer = answer_make();
	struct config_list donors = {.count = 0};
	unsigned taken = 0;

	record_add(answer, ns_t_srv, 7470, "a.example.com");
	for (size_t whole = answer->size--; answer->size && answer->size < whole; answer->size--) {
		taken += parse(answer, &donors) == 0;
		list_free(&donors, 0);
	}
	ok(taken == 0, "no cut answer gives a donor");
}

static void bad_names_are_refused(void)
{
	static const char *const bad[] = {
	    "dns+srv://",         "dns+srv://a:7470",          "dns+srv://a/b",
	    "dns+srv://_farpage", "dns+srv://_farpage._udp.a", "dns+srv://_farpage.tcp.a"};
	struct config_list donors = {.count = 0};

	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(donors_dns_append(bad[i], &donors) == -EINVAL && !donors.count, "the name %s is refused", bad[i]);
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	donors_are_sorted_behind_those_of_the_list();
	records_that_name_no_donor_are_skipped();
	too_many_donors_are_refused();
	cut_answers_are_refused();
	bad_names_are_refused();
	return tap_done();
}
