/* bench_fault: see bench_fault.h. bench_floor.c measures the floor. */
#include "cli/bench/bench_fault.h"

#include "cli/bench/bench_interrupt.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "farpage/farpage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((size_t)4096)
#define LOCAL_SHARE 4 /* the local budget is 1/4 of the memory */
#define ASIDE_SHARE 8 /* 1/8 of the local budget is written between rounds */
#define POINTS 2      /* the measurement takes as long as two points of bench_store.c */
#define MARK UINT64_C(0x9e3779b97f4a7c15)

struct touching {
	const char *uri;
	struct farpage *farpage;
	char *memory;
	uint32_t *order;     /* the order in which the pages are touched */
	size_t pages, aside; /* pages that are touched, and further pages that are written between rounds */
	uint64_t left_ns;    /* remaining time of the measurement */
	struct histogram latencies;
};

static volatile uint64_t *touching_word(const struct touching *touching, size_t page)
{
	return (volatile uint64_t *)(void *)(touching->memory + page * PAGE);
}

static uint64_t touching_mark(size_t page)
{
	return (page + 1) * MARK;
}

static int touching_write(struct touching *touching, size_t first, size_t count, uint64_t salt)
{
	for (size_t page = first; page < first + count; page++) {
		if (bench_interrupted())
			return -EINTR;
		*touching_word(touching, page) = touching_mark(page) ^ salt;
	}
	return farpage_advise(touching->farpage, touching->memory + first * PAGE, count * PAGE, FARPAGE_PAGEOUT);
}

/* Touches each page once and records the latencies. Returns 0 after a whole round, 1 when the time is up, or -errno. */
static int touching_round(struct touching *touching)
{
	uint64_t begin = clock_now(), end = begin;

	for (size_t i = 0; i < touching->pages; i++) {
		size_t page = touching->order[i];
		uint64_t start = clock_now(), word;

		word = *touching_word(touching, page);
		end = clock_now();
		if (word != touching_mark(page)) {
			log_error("donor %s: a page that came back is not what was written", touching->uri);
			return -EBADMSG;
		}
		histogram_record(&touching->latencies, end - start);
		if (bench_interrupted())
			return -EINTR;
		if (end - begin >= touching->left_ns)
			return 1;
	}
	touching->left_ns -= end - begin;
	return 0;
}

/* Runs rounds until the time is up. *@ret_far gets libfarpage's count of the faults that waited for the donor. */
static int touching_rounds(struct touching *touching, uint64_t *ret_far)
{
	struct farpage_stats before, after;
	uint64_t far = 0, salt = 0;
	int result = 0;

	while (result == 0) {
		result = farpage_advise(touching->farpage, touching->memory, touching->pages * PAGE, FARPAGE_PAGEOUT);
		if (!result)
			result = touching_write(touching, touching->pages, touching->aside, ++salt);
		if (result)
			break;
		farpage_get_stats(touching->farpage, &before);
		result = touching_round(touching);
		farpage_get_stats(touching->farpage, &after);
		far += after.faults_far - before.faults_far;
	}
	*ret_far = far;
	return result < 0 ? result : 0;
}

static int touching_shuffle(struct touching *touching)
{
	struct random_state chance;

	touching->order = malloc(touching->pages * sizeof *touching->order);
	if (!touching->order)
		return -ENOMEM;
	random_seed(&chance, 1);
	for (size_t i = 0; i < touching->pages; i++) {
		size_t other = random_below(&chance, i + 1);

		touching->order[i] = touching->order[other];
		touching->order[other] = (uint32_t)i;
	}
	return 0;
}

static int touching_open(struct touching *touching, const char *key_file, uint64_t bytes)
{
	struct farpage_options options = {
	    .local = bytes / LOCAL_SHARE > FARPAGE_LOCAL_MIN ? bytes / LOCAL_SHARE : FARPAGE_LOCAL_MIN,
	    .window = bytes,
	    .donors = &touching->uri,
	    .donor_count = 1,
	    .key_file = key_file,
	    .prefetch_pages = 1,
	};
	void *memory;
	int error = farpage_open(&options, &touching->farpage);

	if (error)
		return error; /* farpage_open() has logged the reason */
	touching->aside = options.local / ASIDE_SHARE / PAGE;
	touching->pages = bytes / PAGE - touching->aside;
	error = farpage_map(touching->farpage, (touching->pages + touching->aside) * PAGE, &memory);
	if (!error)
		error = touching_shuffle(touching);
	if (error) {
		log_error("donor %s: cannot map far memory: %s", touching->uri, strerror(-error));
		farpage_close(touching->farpage);
		return error;
	}
	touching->memory = memory;
	return 0;
}

int bench_fault_measure(const char *key_file, struct bench_results *results, unsigned donor)
{
	struct bench_fault *fault = &results->donors[donor].fault;
	static struct touching touching; /* too large for the stack */
	uint64_t far;
	int error;

	touching = (struct touching){.uri = results->donors[donor].uri,
				     .left_ns = (uint64_t)(results->seconds * POINTS * 1e9)};
	error = touching_open(&touching, key_file, results->bytes);
	if (error)
		return error;
	bench_progress_show("%.40s: writing all far memory", touching.uri);
	error = touching_write(&touching, 0, touching.pages, 0);
	bench_progress_show("%.40s: far faults", touching.uri);
	if (!error)
		error = touching_rounds(&touching, &far);
	if (!error) {
		fault->latency = bench_latency_of(&touching.latencies);
		fault->far = far;
	}
	farpage_close(touching.farpage);
	free(touching.order);
	bench_progress_erase();
	return error;
}
