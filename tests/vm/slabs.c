/*
 * slabs: a client that checks if its new slabs are zero. slabs URI KEY-FILE NAME COUNT|watch [stay]
 *
 * Leases COUNT slabs (0: all that the donor has), reads all their pages, then fills them. Prints "leased N used U": U
 * pages were not all zero. Then says goodbye, or with "stay" stays until it is killed.
 *
 * With "watch" it leases no slab. It asks the donor every 20 ms until no slab is leased, and prints "kept K free F" in
 * microseconds of the day. K is the time of the last question that found a leased slab. F is the time of the answer
 * that no slab is leased.
 */
#include "tests/func/memserver/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u

static bool page_used(const char *page)
{
	return page[0] || memcmp(page, page + 1, PAGE - 1) != 0;
}

/* Sends a message, because a donor takes a silent client for dead. Returns 0, the donor's wire_reason, or -errno. */
static int sign_of_life(struct client *client)
{
	struct wire_capacity capacity;

	return client_status(client, &capacity);
}

/* Fills the slab. Returns the number of its pages that were not zero before, or -errno. */
static long slab_use(struct client *client, const struct wire_message *grant)
{
	long used = 0;

	for (uint64_t at = 0; at < grant->granted.bytes; at += CLIENT_BUFFER) {
		uint64_t address = grant->granted.address + at;
		int status = sign_of_life(client);

		memset(client->buffer, 1, CLIENT_BUFFER);
		if (!status)
			status = client_read(client, address, grant->granted.rkey, CLIENT_BUFFER);
		if (status)
			return status < 0 ? status : -EPROTO;
		for (unsigned i = 0; i < CLIENT_BUFFER; i += PAGE)
			used += page_used(client->buffer + i);
		memset(client->buffer, 's', CLIENT_BUFFER);
		status = client_write(client, address, grant->granted.rkey, CLIENT_BUFFER);
		if (status < 0)
			return status;
	}
	return used;
}

static uint64_t now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static int watch(struct client *client)
{
	struct wire_capacity capacity;
	uint64_t kept = 0;

	for (;;) {
		uint64_t asked = now_us();
		int status = client_status(client, &capacity);

		if (status)
			return status;
		if (!capacity.leased)
			break;
		kept = asked;
		usleep(20000);
	}
	printf("kept %llu free %llu\n", (unsigned long long)kept, (unsigned long long)now_us());
	return 0;
}

int main(int argc, char **argv)
{
	uint8_t key[AUTH_KEY_SIZE];
	struct wire_message grant;
	struct client client;
	long leased = 0, used = 0, count, status;

	if (argc < 5 || auth_key_load(argv[2], key) < 0) {
		fprintf(stderr, "slabs URI KEY-FILE NAME COUNT|watch [stay]\n");
		return 2;
	}
	client_init(&client, argv[1], key, argv[3]);
	status = client_come(&client);
	if (strcmp(argv[4], "watch") == 0) {
		status = status ? status : watch(&client);
		client_close(&client);
		return status ? 1 : 0;
	}
	count = atol(argv[4]);
	if (!status)
		status = client_attach(&client, 0);
	while (!status && (!count || leased < count)) {
		long here;

		status = client_lease(&client, &grant);
		if (status)
			break;
		here = slab_use(&client, &grant);
		if (here < 0) {
			status = here;
			break;
		}
		leased++;
		used += here;
	}
	if (status && !(status == WIRE_REASON_FULL && !count)) {
		fprintf(stderr, "slabs: %ld after %ld slabs\n", status, leased);
		return 1;
	}
	printf("leased %ld used %ld\n", leased, used);
	fflush(stdout);
	while (argc > 5 && !sign_of_life(&client))
		usleep(100000);
	client_bye(&client);
	client_wait_end(&client, client.session);
	client_close(&client);
	return 0;
}
