/*
 * verbs: random connections of one process over an RDMA device. They read, write, send messages, end from either side
 * and begin again, while another thread registers and deregisters. The test knows what each page must hold.
 *
 *     test_verbs_random [SEED [SECONDS]]
 *
 * A page has at most one operation in flight. After a write without a good answer, a page has either the old bytes or
 * the new ones. Until a read shows which, the page is only read.
 */
#include "tests/unit/fabric/pair.h"

#include <pthread.h>

#define LINKS 4u
#define PAGES 64u
#define PAGE 4096u
#define WORDS (PAGE / sizeof(uint64_t))

struct page {
	uint64_t stamp, other; /* each word is one of these */
	uint64_t writing;      /* the stamp being written, or 0 for none */
	bool busy;
	uint64_t cookie;
};

struct link {
	struct fabric_conn *client, *donor;
	bool client_up, donor_up, ended;
	struct page pages[PAGES];
	unsigned sent[2], received[2]; /* messages, by sender: client, donor */
};

static struct pair pair;
static struct link links[LINKS];
static uint64_t state;
static unsigned wrong, answers, lost, connects, messages;

static uint32_t random_below(uint32_t limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % limit;
}

static void complain(const char *what, const struct link *link, unsigned number)
{
	if (wrong++ < 10)
		printf("# link %td: %s (%u)\n", link - links, what, number);
}

static size_t page_offset(const struct link *link, unsigned page)
{
	return ((size_t)(link - links) * PAGES + page) * PAGE;
}

static void page_fill(uint8_t *memory, uint64_t stamp)
{
	for (unsigned i = 0; i < WORDS; i++)
		((uint64_t *)memory)[i] = stamp;
}

static void page_check(struct link *link, unsigned number)
{
	struct page *page = &link->pages[number];
	const uint64_t *words = (const uint64_t *)(pair.client.memory + page_offset(link, number));

	for (unsigned i = 0; i < WORDS; i++) {
		if (words[i] == page->stamp || words[i] == page->other)
			continue;
		complain("a page is wrong", link, number);
		return;
	}
	/*
	 * A page that fits one packet was written whole or not at all. Other pages may hold both stamps until they are
	 * written again.
	 */
	for (unsigned i = 1; i < WORDS; i++)
		if (words[i] != words[0])
			return;
	page->stamp = page->other = words[0];
}

/* --- Actions ------------------------------------------------------------------------------------------------ */

static void post(struct link *link)
{
	static uint64_t serial;
	unsigned number = random_below(PAGES);
	struct page *page = &link->pages[number];
	size_t offset = page_offset(link, number);
	struct fabric_op op = {.kind = random_below(2) ? FABRIC_WRITE : FABRIC_READ,
			       .length = PAGE,
			       .local = pair.client.memory + offset,
			       .region = pair.client.region,
			       .remote = fabric_export(pair.donor.region, link->client)};

	if (page->busy || !fabric_room(link->client))
		return;
	if (page->stamp != page->other)
		op.kind = FABRIC_READ;
	op.remote.address += offset;
	op.cookie = page->cookie = ++serial << 16 | number;
	if (op.kind == FABRIC_WRITE)
		page_fill(op.local, serial);
	if (fabric_post(link->client, &op, 1) != 1)
		return;
	page->busy = true;
	page->writing = op.kind == FABRIC_WRITE ? serial : 0;
}

static void talk(struct link *link, unsigned side)
{
	struct fabric_conn *conn = side ? link->donor : link->client;
	uint8_t message[FABRIC_MESSAGE_MAX];

	memset(message, 0, sizeof message);
	memcpy(message, &link->sent[side], sizeof link->sent[side]);
	if (fabric_send(conn, message, sizeof(unsigned) + random_below(FABRIC_MESSAGE_MAX - sizeof(unsigned))) == 0)
		link->sent[side]++;
}

/* Forgets the operations in flight, because they will not be answered any more. */
static void pages_forget(struct link *link)
{
	for (unsigned i = 0; i < PAGES; i++) {
		struct page *page = &link->pages[i];

		if (page->busy && page->writing)
			page->other = page->writing;
		page->busy = false;
	}
}

static void client_drop(struct link *link)
{
	fabric_disconnect(link->client);
	link->client = NULL;
	link->client_up = false;
	pages_forget(link);
}

static void donor_drop(struct link *link)
{
	fabric_disconnect(link->donor);
	link->donor = NULL;
	link->donor_up = false;
}

static void begin(struct link *link)
{
	uint8_t number = (uint8_t)(link - links);

	/* Fence: the donor's old connection ends before the new one comes. */
	if (link->donor)
		donor_drop(link);
	memset(link->sent, 0, sizeof link->sent);
	memset(link->received, 0, sizeof link->received);
	if (fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, &number, 1, link, &link->client) < 0)
		complain("cannot connect", link, 0);
	else
		connects++;
}

static void act(struct link *link)
{
	unsigned dice = random_below(1000);

	if (!link->client)
		begin(link);
	else if (dice < 2)
		client_drop(link);
	else if (dice < 4 && link->donor_up)
		donor_drop(link);
	else if (!link->client_up)
		return;
	else if (dice < 700)
		post(link);
	else if (dice < 850)
		talk(link, 0);
	else if (link->donor_up)
		talk(link, 1);
}

/* --- Events ------------------------------------------------------------------------------------------------- */

static void done(struct link *link, const struct fabric_event *event)
{
	unsigned number = event->cookie & 0xffff;
	struct page *page = &link->pages[number];

	answers++;
	lost += event->status != 0;
	if (!page->busy || page->cookie != event->cookie) {
		complain("an answer to nothing", link, number);
		return;
	}
	page->busy = false;
	if (page->writing && event->status) {
		page->other = page->writing;
	} else if (page->writing) {
		page->stamp = page->other = page->writing;
	} else if (event->status == 0) {
		page_check(link, number);
	}
}

static void heard(struct link *link, unsigned from, const struct fabric_event *event)
{
	unsigned number;

	memcpy(&number, event->data, sizeof number);
	messages++;
	if (number != link->received[from]++)
		complain("a message out of order", link, number);
}

static void client_event(const struct fabric_event *event)
{
	struct link *link = event->user;

	if (event->conn != link->client) {
		complain("an event of a connection that was ended", link, event->kind);
		return;
	}
	switch (event->kind) {
	case FABRIC_ESTABLISHED:
		link->client_up = true;
		return;
	case FABRIC_DONE:
		done(link, event);
		return;
	case FABRIC_MESSAGE:
		heard(link, 1, event);
		return;
	case FABRIC_DISCONNECTED:
		for (unsigned i = 0; i < PAGES; i++)
			if (link->pages[i].busy)
				complain("the end came before an answer", link, i);
		client_drop(link);
		return;
	default:
		complain("an event of the donor's", link, event->kind);
	}
}

static void request(const struct fabric_event *event)
{
	struct link *link;
	uint8_t number;

	memcpy(&number, event->data, 1);
	link = &links[number % LINKS];
	/* If the client gave up a connection and began another one, the newer request comes last. */
	if (link->donor)
		donor_drop(link);
	link->donor = event->conn;
	if (fabric_accept(event->conn, pair.donor.domain, link) < 0)
		donor_drop(link);
}

static void donor_event(const struct fabric_event *event)
{
	struct link *link = event->user;

	if (event->kind == FABRIC_CONNECT_REQUEST) {
		request(event);
		return;
	}
	if (event->conn != link->donor) {
		complain("an event of a connection that was ended, at the donor", link, event->kind);
		return;
	}
	if (event->kind == FABRIC_ESTABLISHED)
		link->donor_up = true;
	else if (event->kind == FABRIC_MESSAGE)
		heard(link, 0, event);
	else if (event->kind == FABRIC_DISCONNECTED)
		donor_drop(link);
}

/*
 * Takes one event at a time, because a connection that is ended by an event has no more events. Returns true if there
 * was an event.
 */
static bool listen_to(struct fabric *fabric, void (*hear)(const struct fabric_event *))
{
	struct fabric_event event;

	for (unsigned i = 0; i < 32; i++) {
		if (fabric_poll(fabric, &event, 1) == 0)
			return i;
		hear(&event);
	}
	return true;
}

/* --- Another thread ----------------------------------------------------------------------------------------- */

static _Atomic bool stop;
static unsigned registered;

static void *registering(void *argument)
{
	struct fabric_region *regions[8] = {NULL};
	uint8_t *memory = mmap(NULL, 8 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t seed = 1;

	(void)argument;
	while (!stop && memory != MAP_FAILED) {
		unsigned i = (unsigned)(seed >> 40) % 8;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (regions[i]) {
			fabric_deregister(regions[i]);
			regions[i] = NULL;
		} else if (fabric_register(pair.client.domain, memory + i * 65536, 65536, FABRIC_LOCAL, &regions[i]) ==
			   0) {
			registered++;
		}
		usleep(1000);
	}
	for (unsigned i = 0; i < 8; i++)
		fabric_deregister(regions[i]);
	munmap(memory, 8 * 65536);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : clock_now();
	uint64_t until;
	pthread_t thread;

	if (pair_is_tcp() && argc < 2)
		return tap_skip_all("FARPAGE_TEST_FABRIC names no RDMA address");
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	printf("# seed %llu\n", (unsigned long long)seed);
	state = seed;
	pair_open(&pair, NULL);
	pthread_create(&thread, NULL, registering, NULL);
	until = clock_now() + (argc > 2 ? strtoull(argv[2], NULL, 0) : 20) * 1000000000ull;
	while (clock_now() < until) {
		bool some = false;

		act(&links[random_below(LINKS)]);
		if (random_below(4) == 0)
			some = listen_to(pair.client.fabric, client_event);
		if (random_below(4) == 0)
			some |= listen_to(pair.donor.fabric, donor_event);
		if (!some)
			sched_yield();
	}
	stop = true;
	pthread_join(thread, NULL);
	ok(wrong == 0, "random traffic has no fault (%u answers, %u lost, %u messages, %u connects, %u regions, %u)",
	   answers, lost, messages, connects, registered, wrong);
	ok(answers - lost > 100 && messages > 10 && connects > LINKS && registered > 10,
	   "random traffic has enough answers, messages, connections and registrations");
	pair_close(&pair);
	return tap_done();
}
