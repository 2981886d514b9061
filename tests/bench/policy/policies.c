/*
 * policies: replays a trace of pages (collapse.c) under several orders of eviction.
 *
 *     policies TRACE LOCAL     LOCAL: pages that fit, in thousandths of all pages of the trace
 *
 * Prints for each order the pages fetched, also against LRU, the pages that come back from the victim buffer, and the
 * pages that got a second chance because they were in use. A page's first use is no fetch. Sources: Belady 1966; CLOCK:
 * Corbato 1968; 2Q: Johnson and Shasha 1994; S3-FIFO: Yang and others 2023.
 */
#include "pager/loop.h"
#include "pager/refault.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct result {
	uint64_t fetches, returns, chances;
};

static uint32_t *trace; /* page * 2 + write */
static size_t length;
static uint32_t pages, local;

/* --- Tools -------------------------------------------------------------------------------------------------------- */

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		abort();
	return memory;
}

/* A first-in-first-out queue. Each page is in it at most a few times. */
struct queue {
	uint32_t *ring;
	uint32_t capacity, head, count;
};

static struct queue queue_make(void)
{
	return (struct queue){.ring = zeroed(2 * (size_t)pages + 2, sizeof(uint32_t)), .capacity = 2 * pages + 2};
}

static void queue_put(struct queue *queue, uint32_t page)
{
	assert(queue->count < queue->capacity);
	queue->ring[(queue->head + queue->count++) % queue->capacity] = page;
}

static uint32_t queue_take(struct queue *queue)
{
	uint32_t page = queue->ring[queue->head];

	queue->head = (queue->head + 1) % queue->capacity;
	queue->count--;
	return page;
}

/* --- Orders that know everything ---------------------------------------------------------------------------------- */

static struct result lru(void)
{
	struct result result = {0};
	uint32_t *next = zeroed(pages + 1, sizeof *next), *before = zeroed(pages + 1, sizeof *before), count = 0;
	bool *here = zeroed(pages, sizeof *here), *known = zeroed(pages, sizeof *known);
	const uint32_t end = pages; /* next[end] is the youngest, before[end] the oldest */

	next[end] = before[end] = end;
	for (size_t i = 0; i < length; i++) {
		uint32_t page = trace[i] / 2;

		if (here[page]) {
			next[before[page]] = next[page];
			before[next[page]] = before[page];
		} else {
			result.fetches += known[page];
			if (count == local) {
				uint32_t oldest = before[end];

				before[end] = before[oldest];
				next[before[oldest]] = end;
				here[oldest] = false;
			} else {
				count++;
			}
		}
		here[page] = known[page] = true;
		next[page] = next[end];
		before[page] = end;
		before[next[end]] = page;
		next[end] = page;
	}
	return result;
}

struct use {
	uint32_t next, page; /* the page's next use */
};

static void heap_put(struct use *heap, size_t *count, struct use use)
{
	size_t at = ++*count;

	for (; at > 1 && heap[at / 2].next < use.next; at /= 2)
		heap[at] = heap[at / 2];
	heap[at] = use;
}

static struct use heap_take(struct use *heap, size_t *count)
{
	struct use top = heap[1], last = heap[(*count)--];
	size_t at = 1;

	for (size_t child; (child = 2 * at) <= *count; at = child) {
		if (child < *count && heap[child + 1].next > heap[child].next)
			child++;
		if (heap[child].next <= last.next)
			break;
		heap[at] = heap[child];
	}
	heap[at] = last;
	return top;
}

/* Evicts the page whose next use is farthest. */
static struct result belady(void)
{
	struct result result = {0};
	uint32_t *next = zeroed(length, sizeof *next), *use = zeroed(pages, sizeof *use), count = 0;
	struct use *heap = zeroed(length + 2, sizeof *heap);
	bool *here = zeroed(pages, sizeof *here), *known = zeroed(pages, sizeof *known);
	size_t uses = 0;

	memset(use, 0xff, pages * sizeof *use);
	for (size_t i = length; i-- > 0;) {
		next[i] = use[trace[i] / 2];
		use[trace[i] / 2] = (uint32_t)i;
	}
	for (size_t i = 0; i < length; i++) {
		uint32_t page = trace[i] / 2;

		result.fetches += !here[page] && known[page];
		while (!here[page] && count == local) {
			struct use farthest = heap_take(heap, &uses);

			if (here[farthest.page] && use[farthest.page] == farthest.next) {
				here[farthest.page] = false;
				count--;
			}
		}
		count += !here[page];
		here[page] = known[page] = true;
		use[page] = next[i];
		heap_put(heap, &uses, (struct use){next[i], page});
	}
	free(heap);
	free(next);
	return result;
}

/* --- Orders of queues --------------------------------------------------------------------------------------------- */

enum bits { BITS_NONE, BITS_WRITES, BITS_ACCESSES };

static bool tells(enum bits bits, uint32_t record)
{
	return bits == BITS_ACCESSES || (bits == BITS_WRITES && record % 2);
}

/* CLOCK; without bits that is FIFO. */
static struct result clock_order(enum bits bits)
{
	struct result result = {0};
	struct queue queue = queue_make();
	bool *here = zeroed(pages, sizeof *here), *known = zeroed(pages, sizeof *known),
	     *used = zeroed(pages, sizeof *used);

	for (size_t i = 0; i < length; i++) {
		uint32_t page = trace[i] / 2;

		if (here[page]) {
			used[page] |= tells(bits, trace[i]);
			continue;
		}
		result.fetches += known[page];
		while (queue.count == local) {
			uint32_t oldest = queue_take(&queue);

			if (used[oldest]) {
				used[oldest] = false;
				result.chances++;
				queue_put(&queue, oldest);
			} else {
				here[oldest] = false;
			}
		}
		here[page] = known[page] = true;
		queue_put(&queue, page);
	}
	return result;
}

/* S3-FIFO with a small queue of a tenth, and ghosts of as many pages as the main queue. It counts accesses. */
static struct result s3_fifo(void)
{
	struct result result = {0};
	struct queue small = queue_make(), main_queue = queue_make(), ghosts = queue_make();
	uint8_t *count = zeroed(pages, 1), *ghost = zeroed(pages, 1);
	bool *here = zeroed(pages, sizeof *here), *known = zeroed(pages, sizeof *known);

	for (size_t i = 0; i < length; i++) {
		uint32_t page = trace[i] / 2;

		if (here[page]) {
			count[page] += count[page] < 3;
			continue;
		}
		result.fetches += known[page];
		while (small.count + main_queue.count >= local) {
			bool from_small = small.count > local / 10 || !main_queue.count;
			uint32_t oldest = queue_take(from_small ? &small : &main_queue);

			if (from_small && count[oldest] > 1) {
				count[oldest] = 0;
				queue_put(&main_queue, oldest);
			} else if (!from_small && count[oldest]) {
				count[oldest]--;
				result.chances++;
				queue_put(&main_queue, oldest);
			} else {
				here[oldest] = false;
				if (!from_small)
					continue;
				if (ghosts.count == local - local / 10)
					ghost[queue_take(&ghosts)]--;
				queue_put(&ghosts, oldest);
				ghost[oldest]++;
			}
		}
		count[page] = 0;
		here[page] = known[page] = true;
		queue_put(ghost[page] ? &main_queue : &small, page);
	}
	return result;
}

enum place { NOWHERE, HERE, BUFFERED, AWAY };

/* What pager/residents.h and pager/victims.h do: 2Q whose second queue takes pages that come back from the victim
   buffer. @weight: how many returned young pages weigh as much as a returned proven page, or 0 if the young queue's
   share of the memory stays as it is at the start. @ghosts: divisor of @local. A fetched page that so much more memory
   would have kept counts like one from the buffer. 0: none does. @loops: pages are kept in loops (pager/loop.h). */
struct two_queues {
	uint32_t buffer_part, young_part; /* divisors of @local: the buffer's frames, the young queue at the start */
	uint32_t weight, ghosts;
	bool loops;
	enum bits bits;
};

/* Decides like the pager which fetched pages enter the second queue. */
struct depths {
	struct histogram histogram;
	struct refault refault;
	struct loop loop;
	uint32_t *stamps; /* of the pages that are away */
};

static struct depths *depths_open(void)
{
	struct depths *depths = zeroed(1, sizeof *depths);

	refault_open(&depths->refault, &depths->histogram, local);
	loop_open(&depths->loop, local);
	depths->stamps = zeroed(pages, sizeof *depths->stamps);
	return depths;
}

static void depths_leave(struct depths *depths, uint32_t page)
{
	depths->stamps[page] = refault_stamp(&depths->refault);
	refault_count(&depths->refault);
}

static bool depths_prove(struct depths *depths, struct two_queues how, uint32_t page)
{
	uint64_t depth = refault_record(&depths->refault, depths->stamps[page]);

	if (loop_note(&depths->loop, depth) && how.loops)
		return loop_keeps(page, depths->stamps[page]);
	return how.ghosts && depth * how.ghosts < local;
}

static struct result two_queues(struct two_queues how)
{
	struct result result = {0};
	struct queue young = queue_make(), proven = queue_make(), buffer = queue_make();
	struct depths *depths = depths_open();
	uint8_t *place = zeroed(pages, 1), *frames = zeroed(pages, 1);
	bool *used = zeroed(pages, sizeof *used), *proven_left = zeroed(pages, sizeof *proven_left);
	const uint32_t buffered = local / how.buffer_part ? local / how.buffer_part : 1, resident = local - buffered;
	double share = (double)resident / how.young_part, least = resident / 32.0, most = resident * 0.75;

	for (size_t i = 0; i < length; i++) {
		uint32_t page = trace[i] / 2;
		bool is_back, is_proven;

		if (place[page] == HERE) {
			used[page] |= tells(how.bits, trace[i]);
			continue;
		}
		is_back = place[page] == BUFFERED;
		is_proven = is_back || (place[page] == AWAY && depths_prove(depths, how, page));
		result.fetches += place[page] == AWAY;
		result.returns += is_back;
		if (is_back && how.weight)
			share += proven_left[page] ? -1.0 : 1.0 / how.weight;
		share = share < least ? least : share > most ? most : share;
		while (young.count + proven.count >= resident) {
			bool from_young = !proven.count || young.count > share;
			uint32_t oldest = queue_take(from_young ? &young : &proven);

			if (used[oldest]) {
				used[oldest] = false;
				result.chances++;
				queue_put(&proven, oldest);
				continue;
			}
			if (buffer.count == buffered) {
				uint32_t out = queue_take(&buffer);

				if (--frames[out] == 0 && place[out] == BUFFERED) {
					place[out] = AWAY;
					depths_leave(depths, out);
				}
			}
			place[oldest] = BUFFERED;
			proven_left[oldest] = !from_young;
			frames[oldest]++;
			queue_put(&buffer, oldest);
		}
		place[page] = HERE;
		used[page] = false;
		queue_put(is_proven ? &proven : &young, page);
	}
	return result;
}

/* --- Main --------------------------------------------------------------------------------------------------------- */

static void print(const char *name, struct result result, uint64_t base)
{
	printf("%-34s %9llu %6.2f %9llu %9llu\n", name, (unsigned long long)result.fetches,
	       base ? (double)result.fetches / (double)base : 1.0, (unsigned long long)result.returns,
	       (unsigned long long)result.chances);
}

static void read_trace(const char *path)
{
	FILE *file = fopen(path, "rb");

	if (!file || fseek(file, 0, SEEK_END)) {
		perror(path);
		exit(1);
	}
	length = (size_t)ftell(file) / sizeof *trace;
	rewind(file);
	trace = zeroed(length, sizeof *trace);
	if (fread(trace, sizeof *trace, length, file) != length) {
		perror(path);
		exit(1);
	}
	fclose(file);
	for (size_t i = 0; i < length; i++)
		if (trace[i] / 2 >= pages)
			pages = trace[i] / 2 + 1;
}

int main(int argc, char **argv)
{
	struct result base;

	if (argc != 3) {
		fprintf(stderr, "usage: policies TRACE LOCAL\n");
		return 2;
	}
	read_trace(argv[1]);
	local = (uint32_t)((uint64_t)pages * strtoul(argv[2], NULL, 10) / 1000);
	if (local < 32) {
		fprintf(stderr, "policies: %u pages of %u are too few\n", local, pages);
		return 1;
	}
	printf("%zu records of %u pages, %u of them local\n", length, pages, local);
	printf("%-34s %9s %6s %9s %9s\n", "", "fetches", "/ LRU", "returns", "chances");
	base = lru();
	print("LRU", base, base.fetches);
	print("Belady", belady(), base.fetches);
	print("FIFO", clock_order(BITS_NONE), base.fetches);
	print("CLOCK, bits of writes", clock_order(BITS_WRITES), base.fetches);
	print("CLOCK, bits of accesses", clock_order(BITS_ACCESSES), base.fetches);
	print("S3-FIFO, counts of accesses", s3_fifo(), base.fetches);
	print("2Q as it is", two_queues((struct two_queues){24, 4, 4, 6, true, BITS_NONE}), base.fetches);
	print("2Q, no loops", two_queues((struct two_queues){24, 4, 4, 6, false, BITS_NONE}), base.fetches);
	print("2Q, half the buffer", two_queues((struct two_queues){48, 4, 4, 6, true, BITS_NONE}), base.fetches);
	print("2Q, ghosts of half the memory", two_queues((struct two_queues){24, 4, 4, 2, true, BITS_NONE}),
	      base.fetches);
	print("2Q, no ghosts", two_queues((struct two_queues){24, 4, 4, 0, true, BITS_NONE}), base.fetches);
	print("2Q, no ghosts, fixed share", two_queues((struct two_queues){24, 4, 0, 0, true, BITS_NONE}),
	      base.fetches);
	print("2Q, bits of writes", two_queues((struct two_queues){24, 4, 4, 6, true, BITS_WRITES}), base.fetches);
	print("2Q, bits of accesses", two_queues((struct two_queues){24, 4, 4, 6, true, BITS_ACCESSES}), base.fetches);
	return 0;
}
