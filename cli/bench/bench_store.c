/* bench_store: see bench_store.h. */
#include "cli/bench/bench_store.h"

#include "cli/ask.h"
#include "cli/bench/bench_interrupt.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define FILL_DEPTH 32u
#define WARM_SHARE 10 /* the warm-up takes 1/10 of a point's time */
#define NS_PER_S 1e9
#define ROOM_PAUSE_MS 20
#define VAIN_POLLS 32 /* empty polls in a row before the thread yields */

/* A load: a store, and the requests that are in flight on it. */
struct load {
	const char *uri;
	struct store *store;
	struct store_queue *queue;
	struct store_buffer *buffer;
	char *frames; /* BENCH_DEPTH_MAX pages, one for each slot */
	struct random_state chance;
	enum store_op op;
	unsigned depth;
	bool in_order; /* writes each page once, in order, to fill the store */
	uint64_t next; /* with in_order: the next page */
	unsigned pending, in_flight;
	struct store_io ios[BENCH_DEPTH_MAX]; /* requests prepared but not submitted */
	uint64_t starts[BENCH_DEPTH_MAX];     /* the time at which each slot's request was submitted */
	struct histogram latencies;
};

static const char *status_reason(int status)
{
	switch (status) {
	case -ENOSPC:
		return "it has no memory left to lease; ask for less with --size";
	case -ETIMEDOUT:
		return "no answer";
	default:
		return strerror(-status);
	}
}

/* Logs one line, and returns @status. Logs nothing for errors that the store logs itself: the loss of the donor, and
   contents that differ from the written contents. After the loss of its only donor, a store also returns -ENOSPC for
   writes. */
static int load_fail(const struct load *load, int status)
{
	struct far_donor_info donor = {0};

	bench_progress_erase();
	far_donors(load->store, &donor, 1);
	if (status != -EIO && status != -EBADMSG && donor.status == 0)
		log_error("donor %s: a page cannot be %s: %s", load->uri, load->op == STORE_READ ? "read" : "written",
			  status_reason(status));
	return status;
}

static uint64_t load_page(struct load *load, unsigned slot)
{
	if (load->in_order)
		return load->next++;
	return random_below(&load->chance, load->store->pages / load->depth) * load->depth + slot;
}

/* Makes the next request of a slot. load_submit() submits it. */
static void load_prepare(struct load *load, unsigned slot)
{
	if (load->in_order && load->next == load->store->pages)
		return;
	load->ios[load->pending++] = (struct store_io){
	    .op = load->op,
	    .count = 1,
	    .page = load_page(load, slot),
	    .data = load->frames + (size_t)slot * STORE_PAGE,
	    .buffer = load->buffer,
	    .cookie = slot,
	};
}

static int load_submit(struct load *load)
{
	uint64_t now = clock_now();
	int taken;

	if (!load->pending)
		return 0;
	for (unsigned i = 0; i < load->pending; i++)
		load->starts[load->ios[i].cookie] = now;
	taken = store_submit_staged(load->queue, load->ios, &load->pending);
	if (taken < 0)
		return taken;
	load->in_flight += (unsigned)taken;
	return 0;
}

enum load_phase { LOAD_WARM, LOAD_COUNTED, LOAD_DRAIN };

/* Processes the available answers. Returns their number, or the first error among them. */
static int load_collect(struct load *load, enum load_phase phase, uint64_t *ret_now)
{
	struct store_done dones[BENCH_DEPTH_MAX];
	int count = store_poll(load->queue, dones, BENCH_DEPTH_MAX), status = 0;
	uint64_t now = clock_now();

	for (int i = 0; i < count; i++) {
		unsigned slot = (unsigned)dones[i].cookie;

		assert(slot < load->depth);
		load->in_flight--;
		if (dones[i].status && !status)
			status = dones[i].status;
		if (phase == LOAD_COUNTED)
			histogram_record(&load->latencies, now - load->starts[slot]);
		if (phase != LOAD_DRAIN)
			load_prepare(load, slot);
	}
	*ret_now = now;
	return status ? status : count;
}

/* Waits for all answers, because a queue must have nothing in flight when it is closed. The wait ends, because the
   fabric answers each request within a deadline. Returns 0 or -errno. */
static int load_drain(struct load *load)
{
	int error = 0;
	uint64_t now;

	load->pending = 0;
	while (load->in_flight) {
		int count = load_collect(load, LOAD_DRAIN, &now);

		if (count < 0)
			error = count;
		if (count <= 0)
			sched_yield();
	}
	return error;
}

/* Keeps load->depth requests in flight, for a warm-up and then for @seconds. Continues longer if no request was
   answered in that time. With load->in_order, runs until all pages were written. Returns 0 or -errno. */
static int load_run(struct load *load, double seconds, double *ret_seconds)
{
	enum load_phase phase = LOAD_WARM;
	uint64_t length = (uint64_t)(seconds * NS_PER_S), begin = clock_now() + length / WARM_SHARE, now = begin;
	unsigned vain = 0;
	int result = 0, drained;

	memset(&load->latencies, 0, sizeof load->latencies);
	for (unsigned slot = 0; slot < load->depth; slot++)
		load_prepare(load, slot);
	while (load->pending || load->in_flight) {
		result = load_submit(load);
		if (!result)
			result = load_collect(load, phase, &now);
		if (result < 0 || bench_interrupted())
			break;
		if (phase == LOAD_COUNTED && now >= begin + length && load->latencies.count)
			break;
		vain = result ? 0 : vain + 1;
		if (vain && vain % VAIN_POLLS == 0)
			sched_yield(); /* a donor on this machine may need the processor */
		if (phase == LOAD_WARM && !load->in_order && now >= begin) {
			phase = LOAD_COUNTED;
			begin = now;
		}
	}
	drained = load_drain(load);
	if (result < 0 || drained < 0)
		return load_fail(load, result < 0 ? result : drained);
	if (bench_interrupted())
		return -EINTR;
	*ret_seconds = (double)(now - begin) / NS_PER_S;
	return 0;
}

static int load_fill(struct load *load)
{
	double seconds;
	int error;

	load->op = STORE_WRITE;
	load->depth = FILL_DEPTH;
	load->in_order = true;
	error = load_run(load, 0, &seconds);
	load->in_order = false;
	return error;
}

static int load_points(struct load *load, struct bench_results *results, unsigned donor)
{
	for (unsigned op = 0; op < BENCH_OPS; op++) {
		for (unsigned i = 0; i < results->depth_count; i++) {
			struct bench_point *point = &results->donors[donor].points[op][i];
			double seconds;
			int error;

			bench_progress_show("%.40s: %s, depth %u", load->uri, bench_op_name((enum bench_op)op),
					    results->depths[i]);
			load->op = op == BENCH_READ ? STORE_READ : STORE_WRITE;
			load->depth = results->depths[i];
			error = load_run(load, results->seconds, &seconds);
			if (error)
				return error;
			point->latency = bench_latency_of(&load->latencies);
			point->seconds = seconds;
			point->measured = true;
		}
	}
	return 0;
}

/* Allocates and registers the frames, and fills them with random bytes. So no frame is a page of zeroes. This stays
   true after reads, because no page of the store is all zeroes. */
static int load_open_frames(struct load *load)
{
	size_t length = (size_t)BENCH_DEPTH_MAX * STORE_PAGE;
	void *frames = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int error;

	if (frames == MAP_FAILED)
		return -errno;
	load->frames = frames;
	for (size_t i = 0; i < length / sizeof(uint64_t); i++)
		((uint64_t *)frames)[i] = random_next(&load->chance) | 1;
	error = store_register(load->store, frames, length, &load->buffer);
	if (error)
		munmap(frames, length);
	return error;
}

static void load_close_frames(struct load *load)
{
	store_deregister(load->store, load->buffer);
	munmap(load->frames, (size_t)BENCH_DEPTH_MAX * STORE_PAGE);
}

/* Fills the store and measures its points. If store_register() fails, logs one line, because store_register() logs
   nothing. */
static int load_measure(struct load *load, struct bench_results *results, unsigned donor)
{
	int error = load_open_frames(load);

	if (error) {
		log_error("donor %s: cannot register memory for its pages: %s", load->uri, strerror(-error));
		return error;
	}
	error = store_queue_open(load->store, &load->queue);
	if (!error) {
		bench_progress_show("%.40s: writing all pages", load->uri);
		error = load_fill(load);
		if (!error)
			error = load_points(load, results, donor);
		store_queue_close(load->queue);
	}
	load_close_frames(load);
	return error;
}

/* Sets the donor's fabric if its address does not name one ("auto://"). */
static void load_name_fabric(const struct load *load, struct bench_donor *donor)
{
	struct far_donor_info answer = {0};

	if (far_donors(load->store, &answer, 1) && *answer.via)
		bench_donor_set_fabric(donor, answer.via);
}

int bench_store_measure(const struct far_config *config, struct bench_results *results, unsigned donor)
{
	struct far_config own = *config;
	struct load *load = calloc(1, sizeof *load);
	int error;

	if (!load) {
		log_error("no memory to measure with");
		return -ENOMEM;
	}
	load->uri = results->donors[donor].uri;
	random_seed(&load->chance, donor + 1);
	own.donors = &load->uri;
	own.donor_count = own.replicas = 1;
	own.pages = results->bytes / STORE_PAGE;
	error = far_open(&own, &load->store);
	if (!error) {
		load_name_fabric(load, &results->donors[donor]);
		error = load_measure(load, results, donor);
		store_close(load->store);
	}
	bench_progress_erase();
	free(load);
	return error;
}

int bench_store_room(const struct far_config *config, const char *uri, uint64_t bytes, unsigned wait_ms)
{
	const struct timespec pause = {.tv_nsec = ROOM_PAUSE_MS * 1000000L};
	char unused[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX], lent[SIZE_TEXT_MAX];
	uint64_t until = clock_now() + wait_ms * UINT64_C(1000000);

	for (;;) {
		struct far_donor_info donor;
		uint64_t needed, free_bytes;
		int error = far_query(config, uri, &donor);

		if (error)
			return error;
		needed =
		    donor.slab_bytes ? (bytes + donor.slab_bytes - 1) / donor.slab_bytes * donor.slab_bytes : bytes;
		free_bytes = ask_free(&donor);
		if (free_bytes >= needed)
			return 0;
		if (clock_now() >= until || bench_interrupted()) {
			log_error("donor %s has %s free of the %s that it lends, and %s are needed: give a smaller "
				  "--size, or let it lend more",
				  uri, size_format(free_bytes, unused), size_format(donor.donated, lent),
				  size_format(needed, wanted));
			return -ENOSPC;
		}
		nanosleep(&pause, NULL);
	}
}
