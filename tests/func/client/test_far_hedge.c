/*
 * Two replicas, one on a donor that is slow to answer reads. Most reads go to the other donor. If a read of the
 * slow donor is overdue, it is sent to the other donor, too, and the late answer changes no memory.
 *
 * Hooks lie between client and fabric. A read of the slow donor is carried out at once, but into other memory. When
 * the read is due, its pages are copied to their target and its end is reported, as with a slow RDMA device.
 */
#include "client/io/far_queue.h"
#include "common/clock.h"
#include "fabric/backend.h"
#include "tests/func/client/rig.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define PAGES ((uint64_t)RIG_SLAB_PAGES)
#define ASIDE 64u
#define RUN_MAX 8u
#define MANY 40u
#define LATE_NS (20 * UINT64_C(1000000))
#define ASLEEP_MS 40000
#define NOBODY UINT32_MAX

int __real_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
int __real_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);
int __wrap_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
int __wrap_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);
unsigned __real_fabric_room(const struct fabric_conn *conn);
unsigned __wrap_fabric_room(const struct fabric_conn *conn);
void __real_fabric_disconnect(struct fabric_conn *conn);
void __wrap_fabric_disconnect(struct fabric_conn *conn);

struct aside {
	bool used, answered;
	struct fabric_conn *conn;
	void *local;
	uint32_t length;
	uint64_t cookie, due;
};

static _Thread_local bool hooked; /* set in the thread whose reads are hooked */
static struct {
	unsigned slow, wrong; /* the slow donor; the donor whose reads get a wrong bit; or NOBODY */
	unsigned full;        /* the donor whose connection takes no operation, or NOBODY */
	unsigned refused;     /* how often `full` had no room */
	uint64_t late_ns;     /* UINT64_MAX to hold reads back until let_go() */
	bool go;
	unsigned reads[RIG_DONORS_MAX], last;
	uint8_t *bytes;
	struct store_buffer *buffer;
	struct aside asides[ASIDE];
	void *locals[1024]; /* buffers of the reads from the donor `wrong`, by cookie */
} hook = {.slow = NOBODY, .wrong = NOBODY, .full = NOBODY};

static unsigned donor_of(const struct fabric_conn *conn)
{
	return (unsigned)(uintptr_t)conn->user;
}

static void put_aside(struct fabric_conn *conn, struct fabric_op *op)
{
	for (unsigned i = 0; i < ASIDE; i++) {
		if (hook.asides[i].used)
			continue;
		hook.asides[i] =
		    (struct aside){.used = true,
				   .conn = conn,
				   .local = op->local,
				   .length = op->length,
				   .cookie = op->cookie,
				   .due = hook.late_ns == UINT64_MAX ? UINT64_MAX : clock_now() + hook.late_ns};
		op->local = hook.bytes + (size_t)i * RUN_MAX * STORE_PAGE;
		op->region = (const struct fabric_region *)hook.buffer;
		op->cookie = UINT32_MAX + UINT64_C(1) + i;
		return;
	}
	abort();
}

int __wrap_fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	struct fabric_op mine[16];

	if (!hooked)
		return __real_fabric_post(conn, ops, count);
	for (unsigned i = 0; i < count; i++) {
		unsigned donor = donor_of(conn);

		mine[i] = ops[i];
		if (ops[i].kind != FABRIC_READ)
			continue;
		hook.reads[donor]++;
		hook.last = donor;
		hook.locals[ops[i].cookie] = donor == hook.wrong ? ops[i].local : NULL;
		if (donor == hook.slow)
			put_aside(conn, &mine[i]);
	}
	return __real_fabric_post(conn, mine, count);
}

/* Returns false for the answer of the slow donor, which is reported only when it is due. */
static bool event_pass(struct fabric_event *event)
{
	struct aside *aside;

	if (event->kind != FABRIC_DONE)
		return true;
	if (event->cookie <= UINT32_MAX) {
		uint8_t *local = donor_of(event->conn) == hook.wrong ? hook.locals[event->cookie] : NULL;

		if (local)
			local[17] ^= 1;
		return true;
	}
	aside = &hook.asides[event->cookie - UINT32_MAX - 1];
	aside->answered = event->status == 0;
	if (aside->answered)
		return false;
	aside->used = false; /* the read failed, because its connection has ended */
	event->cookie = aside->cookie;
	return true;
}

int __wrap_fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max)
{
	int count = __real_fabric_poll(fabric, events, hooked ? max / 2 : max), kept = 0;

	if (!hooked || count < 0)
		return count;
	for (int i = 0; i < count; i++)
		if (event_pass(&events[i]))
			events[kept++] = events[i];
	for (unsigned i = 0; i < ASIDE && (unsigned)kept < max; i++) {
		struct aside *aside = &hook.asides[i];

		if (!aside->used || !aside->answered || (!hook.go && clock_now() < aside->due))
			continue;
		memcpy(aside->local, hook.bytes + (size_t)i * RUN_MAX * STORE_PAGE, aside->length);
		events[kept++] = (struct fabric_event){.kind = FABRIC_DONE,
						       .conn = aside->conn,
						       .user = (void *)(uintptr_t)donor_of(aside->conn),
						       .cookie = aside->cookie};
		aside->used = false;
	}
	return kept;
}

unsigned __wrap_fabric_room(const struct fabric_conn *conn)
{
	if (!hooked || donor_of(conn) != hook.full)
		return __real_fabric_room(conn);
	hook.refused++;
	return 0;
}

/* Drops the reads that were not answered before the connection ended. */
void __wrap_fabric_disconnect(struct fabric_conn *conn)
{
	for (unsigned i = 0; i < ASIDE && hooked; i++)
		if (hook.asides[i].conn == conn)
			hook.asides[i].used = false;
	__real_fabric_disconnect(conn);
}

static unsigned held(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ASIDE; i++)
		count += hook.asides[i].used;
	return count;
}

/* Reports the reads that were held back. */
static void let_go(struct rig *rig)
{
	struct store_done done;

	hook.slow = NOBODY;
	hook.go = true;
	while (held()) {
		if (store_poll(rig->queue, &done, 1))
			abort(); /* no request is open */
		sched_yield();
	}
	hook.go = false;
}

/* --- Reading ---------------------------------------------------------------------------------------------------- */

static uint64_t turn;
static unsigned wrong;

/* Reads the next page without sleeping. Returns the time taken. */
static uint64_t read_next(struct rig *rig)
{
	struct store_io io = {
	    .op = STORE_READ, .count = 1, .page = turn++ % PAGES, .data = rig->bytes, .buffer = rig->buffer};
	uint64_t begun = clock_now();
	struct store_done done;

	if (store_submit(rig->queue, &io, 1) != 1)
		abort();
	while (!store_poll(rig->queue, &done, 1))
		sched_yield();
	wrong += done.status || !rig_is(rig->bytes, io.page, 1);
	return clock_now() - begun;
}

static int compare(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static uint64_t median_of(struct rig *rig, unsigned reads)
{
	static uint64_t times[1024];

	for (unsigned i = 0; i < reads; i++)
		times[i] = read_next(rig);
	qsort(times, reads, sizeof *times, compare);
	return times[reads / 2];
}

/* Returns the pages held in the only chunk. */
static uint64_t pages_held(const struct rig *rig)
{
	return chunk_pages_held(&((const struct far *)rig->store)->table, 0);
}

/* Returns true if exactly the written pages are held, waiting a moment for a repair. */
static bool pages_are_all(const struct rig *rig)
{
	return wait_until(pages_held(rig) == PAGES);
}

static void open_rig(struct rig *rig)
{
	static uint8_t bytes[ASIDE * RUN_MAX * STORE_PAGE] __attribute__((aligned(STORE_PAGE)));

	rig_donors(rig, 2, "16M");
	rig->config.replicas = 2;
	/* These timeouts are longer than the test waits. So only a hedge ends a wait for the slow donor. */
	rig->config.fabric.io_ms = 100000;
	rig->config.timeout_ms = 200000;
	rig_open(rig);
	hook.bytes = bytes;
	store_register(rig->store, bytes, sizeof bytes, &hook.buffer);
	wrong += rig_put_each(rig, 0, PAGES, 1);
	hooked = true;
}

/* Reads until one donor has answered many reads in a row, and returns that donor. */
static unsigned usual_donor(struct rig *rig)
{
	unsigned row = 0, donor = NOBODY;

	for (unsigned i = 0; i < 200000 && row < 40; i++) {
		read_next(rig);
		row = hook.last == donor ? row + 1 : 1;
		donor = hook.last;
	}
	return row == 40 ? donor : NOBODY;
}

/* --- The tests -------------------------------------------------------------------------------------------------- */

static void reads_avoid_a_slow_donor_until_it_is_fast(struct rig *rig)
{
	unsigned slow = usual_donor(rig), before;
	uint64_t median;

	ok(slow != NOBODY && !wrong, "most reads go to one of two donors");
	hook.slow = slow;
	hook.late_ns = LATE_NS;
	median_of(rig, 100);
	before = hook.reads[slow];
	median = median_of(rig, 512);
	ok(median < LATE_NS / 2 && !wrong,
	   "half of the reads take less than %llu us although one donor answers 20 ms late",
	   (unsigned long long)(median / 1000));
	ok(hook.reads[slow] > before, "a slow donor still gets a read now and then: %u of 512",
	   hook.reads[slow] - before);
	let_go(rig);
	for (unsigned i = 0; i < 200000 && hook.reads[slow] - before < 400; i++)
		read_next(rig);
	ok(hook.reads[slow] - before >= 400 && !wrong, "a donor that answers fast again gets reads again");
}

/* Reads until the next read may be hedged. */
static void earn(struct rig *rig)
{
	const struct far_hedge *hedge = &((const struct far_queue *)rig->queue)->hedge;
	unsigned slow = hook.slow;

	hook.slow = NOBODY;
	while (hedge->credit < 2 * HEDGE_COST)
		read_next(rig);
	hook.slow = slow;
}

/* Waits asleep for the answer to the only read under way. Only the queue's descriptor wakes the reader. */
static bool answered_asleep(struct rig *rig, uint64_t page, const uint8_t *data)
{
	struct pollfd fd = {.fd = store_queue_fd(rig->queue), .events = POLLIN};
	struct store_done done;

	while (!store_poll(rig->queue, &done, 1))
		if (store_arm(rig->queue) == 0 && poll(&fd, 1, ASLEEP_MS) == 0) {
			rig_tell_open(rig);
			return false;
		}
	return done.status == 0 && rig_is(data, page, 1);
}

/* Reads pages into @data, asleep, until one read is held back. Nobody polls after that read, so it is not hedged yet.
   Returns false if there is no such read. */
static bool submit_held(struct rig *rig, uint8_t *data, uint64_t *ret_page)
{
	struct store_io io = {.op = STORE_READ, .count = 1, .data = data, .buffer = rig->buffer};
	unsigned before = held();

	for (unsigned i = 0; i < 200000; i++) {
		earn(rig);
		*ret_page = io.page = turn++ % PAGES;
		memset(data, 0, STORE_PAGE);
		if (store_submit(rig->queue, &io, 1) != 1)
			abort();
		if (held() > before)
			return true;
		if (!answered_asleep(rig, io.page, data))
			return false;
	}
	return false;
}

/* Reads without polling until one read is held back. The pages of that read go to the second half of the buffer. */
static bool read_held(struct rig *rig, uint64_t *ret_page)
{
	uint8_t *data = rig->bytes + RUN_MAX * STORE_PAGE;

	return submit_held(rig, data, ret_page) && answered_asleep(rig, *ret_page, data);
}

static void hedge_answers_a_stalled_read(struct rig *rig)
{
	uint8_t *data = rig->bytes + RUN_MAX * STORE_PAGE;
	struct store_stats before;
	uint64_t page, bad = 0;

	hook.slow = usual_donor(rig);
	hook.late_ns = UINT64_MAX;
	before = rig_stats(rig);
	ok(read_held(rig, &page), "a read that its donor does not answer is answered by the other donor");
	ok(rig_stats(rig).hedges > before.hedges && rig_stats(rig).hedges_won > before.hedges_won,
	   "a hedged read counts as hedged and as won");
	memset(data, 0xa5, STORE_PAGE);
	ok(!store_quiet(rig->queue), "a queue with a late answer to come is not quiet");
	let_go(rig);
	ok(store_quiet(rig->queue) && pages_are_all(rig),
	   "a queue is quiet after the late answer, and its pages are no longer held");
	for (unsigned i = 0; i < STORE_PAGE; i++)
		bad += data[i] != 0xa5;
	ok(!bad, "a late answer does not change the caller's buffer: %llu bytes differ", (unsigned long long)bad);

	hook.slow = usual_donor(rig);
	ok(read_held(rig, &page), "another read is answered by a hedge");
	rig_fill(data, page, 2);
	ok(rig_write(rig, page, 1, data) == 0, "a page with a late answer to come is written");
	let_go(rig);
	ok(rig_read(rig, page, 1, data) == 0 && rig_is(data, page, 2),
	   "a late answer does not replace a page written meanwhile");
	rig_fill(data, page, 1);
	ok(rig_write(rig, page, 1, data) == 0, "a page is written back to its first contents");
}

static void hedge_waits_for_room(struct rig *rig)
{
	struct store_stats before;
	struct store_done done;
	uint64_t page;

	hook.slow = usual_donor(rig);
	before = rig_stats(rig);
	if (!ok(submit_held(rig, rig->bytes, &page), "a read is held back"))
		return;
	hook.full = 1 - hook.slow;
	hook.refused = 0;
	ok(wait_until(!store_poll(rig->queue, &done, 1) && hook.refused >= 3) && rig_stats(rig).hedges == before.hedges,
	   "an overdue read is not hedged while the other donor has no room");
	hook.full = NOBODY;
	ok(wait_until(store_poll(rig->queue, &done, 1)) && done.status == 0 && rig_is(rig->bytes, page, 1) &&
	       rig_stats(rig).hedges == before.hedges + 1,
	   "an overdue read is hedged when the other donor has room again");
	let_go(rig);
	ok(store_quiet(rig->queue) && pages_are_all(rig),
	   "the late answer to a read that was hedged late frees what it held");
}

static void wrong_hedge_is_not_believed(struct rig *rig)
{
	struct store_io io = {.op = STORE_READ, .count = 1, .data = rig->bytes, .buffer = rig->buffer};
	struct store_stats before = {0};
	struct store_done done = {.status = -1};
	int got = 0;

	hook.slow = usual_donor(rig);
	/*
	 * Repeats until a read goes to the slow donor first. A read that goes to the other donor first gets wrong bytes
	 * there. It is then sent to the slow donor, and is held back as well.
	 */
	for (unsigned i = 0; i < 1000 && !got; i++) {
		hook.wrong = NOBODY;
		earn(rig);
		hook.wrong = 1 - hook.slow;
		before = rig_stats(rig);
		io.page = turn++ % PAGES;
		memset(rig->bytes, 0, STORE_PAGE);
		hook.reads[hook.wrong] = 0;
		store_submit(rig->queue, &io, 1);
		got = hook.reads[hook.wrong] == 0;
		while (rig_stats(rig).checksum_errors == before.checksum_errors)
			if (store_poll(rig->queue, &done, 1))
				abort();
		if (!got) {
			hook.go = true;
			while (!store_poll(rig->queue, &done, 1))
				sched_yield();
			hook.go = false;
		}
	}
	ok(rig_stats(rig).hedges == before.hedges + 1, "a wrong answer to one hedge is found by its checksum");
	for (unsigned i = 0; i < 100; i++)
		got = got && !store_poll(rig->queue, &done, 1);
	ok(got && held() && !rig_is(rig->bytes, io.page, 1), "a wrong hedge does not answer its read");
	hook.go = true;
	while (!store_poll(rig->queue, &done, 1))
		sched_yield();
	hook.go = false;
	ok(done.status == 0 && rig_is(rig->bytes, io.page, 1),
	   "a read with a wrong hedge gets its pages from the slow donor");
	hook.wrong = NOBODY;
	let_go(rig);
}

/* The queue is closed before the late answer has come. */
static void closing_the_queue_ends_late_answers(struct rig *rig)
{
	uint64_t page;

	hook.slow = usual_donor(rig);
	ok(read_held(rig, &page) && !store_quiet(rig->queue) && pages_held(rig) > PAGES,
	   "a late answer holds its slab");
	store_queue_close(rig->queue);
	ok(pages_are_all(rig) && !held(), "closing the queue ends its late answers and frees their slab");
	ok(store_queue_open(rig->store, &rig->queue) == 0,
	   "another queue opens after one was closed with a late answer");
	hook.slow = NOBODY;
}

/*
 * Submits @count reads at once and takes the answers that come within @ns. Returns the number of reads without an
 * answer.
 */
static unsigned read_many(struct rig *rig, unsigned count, uint64_t ns)
{
	uint64_t begun = clock_now();
	struct store_done done;

	for (unsigned i = 0; i < count; i++) {
		struct store_io io = {.op = STORE_READ,
				      .count = 1,
				      .page = i,
				      .data = rig->bytes + (size_t)i * STORE_PAGE,
				      .buffer = rig->buffer};

		if (store_submit(rig->queue, &io, 1) != 1)
			abort();
	}
	while (count && clock_now() - begun < ns) {
		if (store_poll(rig->queue, &done, 1)) {
			wrong += done.status != 0;
			count--;
		}
		sched_yield();
	}
	return count;
}

/* Many reads at once are overdue, again and again. */
static void few_reads_are_hedged(struct rig *rig)
{
	unsigned donor = usual_donor(rig), left;
	struct store_stats before = rig_stats(rig), after;
	uint64_t page;

	for (unsigned round = 0; round < 4; round++) {
		hook.slow = donor;
		left = read_many(rig, MANY, 3 * LATE_NS);
		hook.slow = NOBODY;
		hook.go = true;
		while (left || held()) {
			struct store_done done;

			left -= (unsigned)store_poll(rig->queue, &done, 1);
			sched_yield();
		}
		hook.go = false;
		donor = 1 - donor;
	}
	after = rig_stats(rig);
	ok(after.hedges - before.hedges <= 8 + 1 + (after.reads - before.reads) / 32,
	   "at most one read in 32 is hedged: %llu of %llu", (unsigned long long)(after.hedges - before.hedges),
	   (unsigned long long)(after.reads - before.reads));

	hook.slow = usual_donor(rig);
	ok(read_held(rig, &page), "a read of the donor that is to die is answered by a hedge");
	/* Reads that are held back end with the connection. */
	donor_kill(&rig->donors[hook.slow]);
	for (unsigned i = 0; i < 2000; i++)
		read_next(rig);
	ok(!wrong, "all pages are read once the donor of a late answer dies");
}

int main(void)
{
	struct rig rig;

	open_rig(&rig);
	ok(!wrong, "all pages are written to two donors");
	reads_avoid_a_slow_donor_until_it_is_fast(&rig);
	hedge_answers_a_stalled_read(&rig);
	hedge_waits_for_room(&rig);
	wrong_hedge_is_not_believed(&rig);
	closing_the_queue_ends_late_answers(&rig);
	few_reads_are_hedged(&rig);
	store_deregister(rig.store, hook.buffer);
	rig_close(&rig);
	return tap_done();
}
