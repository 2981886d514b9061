/*
 * io: the states of requests and pieces, and the second donor that an overdue read is sent to.
 *
 * A real queue runs over the fabric of this test. The store's only chunk has a replica on each of three donors.
 * Each donor takes one operation at a time, and answers it when the test says so.
 */
#include "client/io/far_link.h"
#include "client/io/far_piece.h"
#include "client/io/far_request.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define DONORS 3u
#define PAGES 16u
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* --- The fabric --------------------------------------------------------------------------------------------------- */

struct fabric {
	unsigned watched;
};

struct fabric_domain {
	unsigned regions;
};

struct fabric_region {
	unsigned access;
};

struct fabric_conn {
	void *user;
	bool open, established;
	bool broken;         /* the next poll reports the connection's end */
	unsigned reads;      /* posted so far */
	bool posted;         /* `op` is not answered yet */
	struct fabric_op op; /* each donor has one operation at a time */
};

static struct fabric fabric;
static struct fabric_region region;
static struct fabric_conn conns[DONORS];
static bool answer[DONORS]; /* the donor answers its operation at the next poll */
static uint8_t memory[PAGES * STORE_PAGE];

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	(void)config;
	*ret_fabric = &fabric;
	return 0;
}

void fabric_close(struct fabric *closed)
{
	(void)closed;
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	(void)domain, (void)base, (void)length, (void)access;
	*ret_region = &region;
	return 0;
}

void fabric_deregister(struct fabric_region *deregistered)
{
	(void)deregistered;
}

int fabric_watch(struct fabric *watching, int fd, void *user)
{
	(void)fd, (void)user;
	watching->watched++;
	return 0;
}

int fabric_connect(struct fabric *connecting, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn)
{
	struct fabric_conn *conn = &conns[(uintptr_t)user];

	(void)connecting, (void)domain, (void)uri, (void)private_data, (void)private_size;
	*conn = (struct fabric_conn){.user = user, .open = true};
	*ret_conn = conn;
	return 0;
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (conn)
		*conn = (struct fabric_conn){0};
}

size_t fabric_conn_memory(const struct fabric_conn *conn)
{
	return sizeof *conn;
}

unsigned fabric_room(const struct fabric_conn *conn)
{
	return !conn->posted;
}

int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	if (conn->posted || count != 1)
		abort();
	conn->op = ops[0];
	conn->posted = true;
	conn->reads += ops[0].kind == FABRIC_READ;
	return 1;
}

static bool conn_event(struct fabric_conn *conn, struct fabric_event *ret_event)
{
	*ret_event = (struct fabric_event){.conn = conn, .user = conn->user, .cookie = conn->op.cookie};
	if (conn->open && !conn->established) {
		conn->established = true;
		ret_event->kind = FABRIC_ESTABLISHED;
		return true;
	}
	if (conn->broken) {
		conn->broken = false;
		ret_event->kind = FABRIC_DISCONNECTED;
		ret_event->status = -ECONNRESET;
		return true;
	}
	if (!conn->posted || !answer[(uintptr_t)conn->user])
		return false;
	conn->posted = false;
	if (conn->op.kind == FABRIC_READ)
		memcpy(conn->op.local, memory + conn->op.remote.address, conn->op.length);
	else
		memcpy(memory + conn->op.remote.address, conn->op.local, conn->op.length);
	ret_event->kind = FABRIC_DONE;
	return true;
}

int fabric_poll(struct fabric *polled, struct fabric_event *events, unsigned max)
{
	unsigned count = 0;

	(void)polled;
	for (unsigned i = 0; i < DONORS && count < max; i++)
		count += conn_event(&conns[i], &events[count]);
	return (int)count;
}

int fabric_wait(struct fabric *waiting, struct fabric_event *events, unsigned max, int timeout_ms)
{
	(void)timeout_ms;
	return fabric_poll(waiting, events, max);
}

int fabric_fd(const struct fabric *asked)
{
	(void)asked;
	return -1;
}

int fabric_arm_until(struct fabric *armed, uint64_t until)
{
	(void)armed, (void)until;
	return 0;
}

/* --- The store ---------------------------------------------------------------------------------------------------- */

static struct fabric_domain domain;
static struct far_donor donors[DONORS];
static struct far far;
static struct store_queue *queue;
static uint8_t data[STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

static struct latency *latency_of(unsigned donor)
{
	return &((struct far_queue *)queue)->links[donor].latency;
}

static void submit(enum store_op op)
{
	const struct store_io io = {
	    .op = op, .count = 1, .page = 3, .data = data, .buffer = (struct store_buffer *)&region};

	if (far_queue_submit(queue, &io, 1) != 1)
		abort();
}

/* Polls once. Returns true if the request is complete and right. */
static bool poll_once(void)
{
	struct store_done done;

	return far_queue_poll(queue, &done, 1) && done.status == 0;
}

/* Return how many requests and pieces of the queue are in @state. */
static unsigned requests_in(enum far_request_state state)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FAR_QUEUE_DEPTH; i++)
		count += ((struct far_queue *)queue)->requests[i].state == state;
	return count;
}

static unsigned pieces_in(enum far_piece_state state)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FAR_QUEUE_DEPTH; i++)
		count += ((struct far_queue *)queue)->pieces[i].state == state;
	return count;
}

static bool all_are_free(void)
{
	return requests_in(REQUEST_FREE) == FAR_QUEUE_DEPTH && pieces_in(PIECE_FREE) == FAR_QUEUE_DEPTH;
}

/* A read counts as overdue after @ns. Otherwise the queue would first have to learn this time from many reads. */
static void hedge_after(uint64_t ns)
{
	((struct far_queue *)queue)->hedge.limit = ns;
}

/* Opens a store whose only chunk has a replica on each donor, and a queue. */
static void open_all(void)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];
	struct chunk_view view;

	far = (struct far){
	    .base.pages = PAGES, .donors = donors, .donor_places = DONORS, .donor_count = DONORS, .domain = &domain};
	far.config = (struct far_config){.replicas = DONORS, .fabric = FABRIC_CONFIG_DEFAULT};
	far.changes = 1;
	pthread_mutex_init(&far.attach, NULL);
	pthread_mutex_init(&far.lock, NULL);
	LIST_INIT(&far.queues);
	if (mailbox_open(&far.mailbox) < 0 || chunk_table_open(&far.table, PAGES, PAGES, DONORS) < 0 ||
	    integrity_open(&far.integrity, PAGES) < 0 || warmth_open(&far.warmth, 1, DONORS, 0) < 0)
		abort();
	for (unsigned i = 0; i < DONORS; i++) {
		donors[i].round = 1;
		slots[i] = (struct chunk_slot){.state = SLOT_FULL, .donor = i};
	}
	chunk_hold(&far.table, 0, 1, &view);
	chunk_publish(&far.table, 0, slots);
	if (far_queue_open(&far.base, &queue) < 0)
		abort();
}

static void close_all(void)
{
	far_queue_close(queue);
	warmth_close(&far.warmth);
	integrity_close(&far.integrity);
	chunk_table_close(&far.table);
	mailbox_close(&far.mailbox);
	pthread_mutex_destroy(&far.lock);
	pthread_mutex_destroy(&far.attach);
}

static void donors_answer(bool first, bool second, bool third)
{
	answer[0] = first;
	answer[1] = second;
	answer[2] = third;
}

static void page_is_written_to_all_donors(void)
{
	memset(data, 7, sizeof data);
	donors_answer(true, true, false);
	submit(STORE_WRITE);
	ok(!poll_once() && requests_in(REQUEST_UNDER_WAY) == 1 && pieces_in(PIECE_UNDER_WAY) == 1,
	   "a write is under way while a donor has not answered");
	donors_answer(true, true, true);
	ok(poll_once() && all_are_free(), "a write is complete once all donors have answered");
}

static void request_without_room_is_parked(void)
{
	hedge_after(0);
	donors_answer(false, false, false);
	submit(STORE_READ);
	submit(STORE_READ);
	ok(requests_in(REQUEST_UNDER_WAY) == 1 && requests_in(REQUEST_PARKED) == 1 && pieces_in(PIECE_UNDER_WAY) == 1,
	   "a read is parked while its donor has no room for it");
	donors_answer(true, true, true);
	ok(poll_once() && requests_in(REQUEST_UNDER_WAY) == 1 && requests_in(REQUEST_PARKED) == 0,
	   "a parked read is under way once its donor has answered another read");
	ok(poll_once() && all_are_free(), "a read that was parked is complete");
}

static void request_that_is_cut_off_is_carried_out_anew(void)
{
	donors_answer(false, true, true);
	submit(STORE_READ);
	conns[0].broken = true;
	ok(!poll_once() && requests_in(REQUEST_UNDER_WAY) == 1 && conns[1].reads == 1,
	   "a read whose connection breaks is sent to the next donor");
	ok(poll_once() && all_are_free(), "a read whose connection broke is complete");
	donors[0].round += 2;
	far.changes++;
	ok(!poll_once() && !poll_once() && ((struct far_queue *)queue)->links[0].established,
	   "a queue connects to a donor that is back");
	conns[1].reads = 0;
}

/* Starts a read, which goes to the first donor. No donor answers. The first poll finds that the read is overdue. */
static void read_overdue(void)
{
	hedge_after(1);
	memset(data, 0, sizeof data);
	donors_answer(false, false, false);
	submit(STORE_READ);
	if (poll_once())
		abort();
}

/* Lets all donors answer, so that no answer is late. Returns true if the page is right. */
static bool read_answered(void)
{
	bool good;

	donors_answer(true, true, true);
	good = poll_once() && data[0] == 7 && data[STORE_PAGE - 1] == 7;
	for (unsigned i = 0; i < DONORS; i++)
		conns[i].reads = 0;
	return good && far_queue_quiet(queue);
}

static void overdue_read_goes_to_a_donor_known_to_be_fast(void)
{
	latency_record(latency_of(2), 200 * US);
	latency_of(1)->mean = latency_of(1)->count = 0;
	read_overdue();
	ok(conns[0].reads == 1 && conns[1].reads == 0 && conns[2].reads == 1,
	   "an overdue read is sent to a donor that answers within 200 us, not to one that was never measured");
	ok(read_answered(), "an overdue read gets its page");
}

static void overdue_read_tries_an_unmeasured_donor_if_the_others_are_slow(void)
{
	latency_overdue(latency_of(2), 50 * MS);
	latency_of(1)->mean = latency_of(1)->count = 0;
	read_overdue();
	ok(conns[0].reads == 1 && conns[1].reads == 1 && conns[2].reads == 0,
	   "an overdue read is sent to a donor that was never measured, not to one that takes 50 ms");
	ok(read_answered(), "an overdue read gets its page from a donor that was never measured");
}

static void answer_after_a_hedge_is_late(void)
{
	struct far_queue *far_queue = (struct far_queue *)queue;
	uint32_t pages = chunk_pages_held(&far.table, 0);

	far_queue->hedge.credit = 0;
	read_overdue();
	ok(pieces_in(PIECE_OVERDUE) == 1 && chunk_pages_held(&far.table, 0) == pages,
	   "an overdue read is not hedged if hedges were frequent");
	ok(read_answered() && all_are_free(), "an overdue read that was not hedged is complete with its answer");
	far_queue->hedge.credit = HEDGE_COST;
	read_overdue();
	ok(pieces_in(PIECE_HEDGED) == 1 && chunk_pages_held(&far.table, 0) == pages + 1,
	   "a hedged read holds its chunk");
	donors_answer(false, true, true);
	ok(poll_once() && pieces_in(PIECE_LATE) == 1 && requests_in(REQUEST_FREE) == FAR_QUEUE_DEPTH &&
	       !far_queue_quiet(queue),
	   "a hedged read is complete with its first answer, and its piece is late");
	donors_answer(true, true, true);
	ok(!poll_once() && all_are_free() && far_queue_quiet(queue) && chunk_pages_held(&far.table, 0) == pages,
	   "a late piece is free after the other answer, and no longer holds its chunk");
}

int main(void)
{
	open_all();
	page_is_written_to_all_donors();
	request_without_room_is_parked();
	request_that_is_cut_off_is_carried_out_anew();
	overdue_read_goes_to_a_donor_known_to_be_fast();
	overdue_read_tries_an_unmeasured_donor_if_the_others_are_slow();
	answer_after_a_hedge_is_late();
	close_all();
	return tap_done();
}
