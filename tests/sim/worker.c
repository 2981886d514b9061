/* worker: see worker.h. */
#include "tests/sim/worker.h"

#include "client/io/far_queue.h"
#include "common/clock.h"
#include "tests/sim/disk.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define RUN_BYTES ((size_t)PROGRAM_RUN_MAX * STORE_PAGE)

static bool slot_writes(const struct program_slot *slot)
{
	return slot->io.op == STORE_WRITE;
}

/* --- Starting --------------------------------------------------------------------------------------------------- */

/* Returns true if a request may begin on these pages by the contract of store.h. */
static bool pages_are_free(const struct program *program, uint64_t page, uint32_t count, bool write)
{
	for (uint64_t i = page; i < page + count; i++)
		if (program->reference.page[i].writing || (write && program->reference.page[i].readers))
			return false;
	return true;
}

static void pages_take(struct program *program, const struct program_slot *slot)
{
	for (uint64_t i = slot->io.page; i < slot->io.page + slot->io.count; i++) {
		struct reference_page *page = &program->reference.page[i];

		page->writing |= slot_writes(slot);
		page->saved &= !slot_writes(slot);
		page->readers = (uint8_t)(page->readers + !slot_writes(slot));
	}
}

static void pages_give(struct program *program, const struct program_slot *slot)
{
	for (uint64_t i = slot->io.page; i < slot->io.page + slot->io.count; i++) {
		struct reference_page *page = &program->reference.page[i];

		if (slot_writes(slot))
			page->writing = false;
		else
			page->readers--;
	}
}

static void slot_fill(struct program *program, const struct program_slot *slot)
{
	const struct far *far = (const struct far *)program->store;

	for (uint32_t i = 0; i < slot->io.count; i++) {
		uint64_t at = slot->io.page + i;
		struct reference_page *page = &program->reference.page[at];

		page->under_way = reference_next(&program->reference, at);
		page->generation = integrity_kind(&far->integrity, at) == INTEGRITY_IS_LIVE
				       ? far->integrity.generations[at]
				       : INTEGRITY_NONE;
		reference_fill(&program->reference, at, page->under_way, (uint8_t *)slot->io.data + i * STORE_PAGE);
	}
}

static void slot_submit(struct worker *worker, unsigned index)
{
	struct program_slot *slot = &worker->slots[index];

	slot->io.data = worker->data + index * RUN_BYTES;
	slot->io.buffer = worker->buffer;
	slot->io.cookie = index;
	if (slot_writes(slot))
		slot_fill(worker->program, slot);
	else
		memset(slot->io.data, 0x5a, slot->io.count * STORE_PAGE);
	slot->since = task_now();
	slot->stalled = worker->process->stalled;
	slot->lost = ((const struct far *)worker->store)->lost_pages;
	slot->refusals = disk_refusals();
	slot->active = true;
	pages_take(worker->program, slot);
	worker->active++;
	world_tell("%s: %s pages %llu to %llu", worker->process->name, slot_writes(slot) ? "write" : "read",
		   (unsigned long long)slot->io.page, (unsigned long long)slot->io.page + slot->io.count - 1);
	if (store_submit(worker->queue, &slot->io, 1) == 1 || worker->process->dead)
		return;
	/* The queue is full. Undoes the request. */
	pages_give(worker->program, slot);
	slot->active = false;
	worker->active--;
}

static void run_choose(const struct program *program, uint64_t *ret_page, uint32_t *ret_count)
{
	uint64_t pages = program->reference.pages;

	/* Uses some pages more often than others. */
	*ret_page = world_below(world_chance(2) ? pages : 1 + pages / 4);
	*ret_count = 1 + (uint32_t)world_below(program->config.run);
	if (*ret_count > pages - *ret_page)
		*ret_count = (uint32_t)(pages - *ret_page);
}

/* Discards some pages, or a chunk. If the process is killed meanwhile, only a part may be discarded. */
static void pages_discard(struct worker *worker)
{
	struct program *program = worker->program;
	const struct process *process = worker->process;
	struct reference *reference = &program->reference;
	uint64_t page;
	uint32_t count;

	run_choose(program, &page, &count);
	if (world_chance(3)) {
		page -= page % program->config.chunk_pages;
		count = (uint32_t)program->config.chunk_pages;
		if (count > reference->pages - page)
			count = (uint32_t)(reference->pages - page);
	}
	if (!pages_are_free(program, page, count, true))
		return;
	for (uint64_t i = page; i < page + count; i++) {
		reference->page[i].writing = true;
		reference->page[i].saved = false;
		reference->page[i].under_way = 0;
	}
	worker->discard_page = page;
	worker->discard_count = count;
	world_tell("%s: discard pages %llu to %llu", process->name, (unsigned long long)page,
		   (unsigned long long)page + count - 1);
	store_discard(worker->store, page, count);
	if (process->dead)
		return; /* worker_inherit() settles the pages */
	worker->discard_count = 0;
	for (uint64_t i = page; i < page + count; i++) {
		reference->page[i].writing = false;
		reference_settle(reference, i, 0);
	}
	program->discards++;
}

/* Checks that store_same() accepts only contents that the page may have. */
static void page_compare(const struct program *program)
{
	static _Alignas(8) uint8_t data[STORE_PAGE];
	const struct reference *reference = &program->reference;
	uint64_t page = world_below(reference->pages);

	if (!pages_are_free(program, page, 1, true))
		return;
	reference_fill(reference, page, (uint32_t)world_below(reference->page[page].written + 2ull), data);
	if (store_same(program->store, page, data) && !reference_allows(reference, page, data))
		world_fail("%s: page %llu is said to have what it has not", program->name, (unsigned long long)page);
}

static void requests_start(struct worker *worker)
{
	struct program *program = worker->program;

	if (world_now() < program->rests_until)
		return;
	for (unsigned i = 0; i < program->config.depth && !worker->process->dead; i++) {
		struct program_slot *slot = &worker->slots[i];
		bool write = world_below(10) < program->config.writes;

		if (slot->active || !world_chance(2))
			continue;
		if (world_chance(24)) {
			pages_discard(worker);
			continue;
		}
		if (world_chance(24))
			page_compare(program);
		slot->io = (struct store_io){.op = write ? STORE_WRITE : STORE_READ};
		run_choose(program, &slot->io.page, &slot->io.count);
		if (pages_are_free(program, slot->io.page, slot->io.count, write))
			slot_submit(worker, i);
	}
}

/* --- Ending ----------------------------------------------------------------------------------------------------- */

static bool slot_is_torn(const struct program *program, const struct program_slot *slot)
{
	for (uint64_t i = slot->io.page; i < slot->io.page + slot->io.count; i++)
		if (program->reference.page[i].torn)
			return true;
	return false;
}

/* Returns true for a read whose pages are all on a backup, so that no fault of a donor can lose them. */
static bool slot_is_saved(const struct program *program, const struct program_slot *slot)
{
	for (uint64_t i = slot->io.page; i < slot->io.page + slot->io.count; i++)
		if (!program->reference.page[i].saved || program->reference.page[i].torn)
			return false;
	return !slot_writes(slot);
}

static bool slot_is_excused(const struct program *program, const struct program_slot *slot, int status)
{
	const struct program_excuses *excuses = &program->config.excuses;

	if (slot_is_saved(program, slot))
		return false;
	/* A write that no donor accepts goes to the backup, so only the disk can make it fail. */
	if (program->config.far.backup && slot_writes(slot))
		return status == -EIO && slot->refusals != disk_refusals();
	switch (status) {
	case -EIO:
		/* A page whose write the disk has refused is lost. Its next read finds that out. */
		return excuses->lost || (program->config.far.backup && slot_is_torn(program, slot));
	case -EBADMSG:
		return !slot_writes(slot) && (excuses->damaged || slot_is_torn(program, slot) ||
					      (excuses->lost && program->config.far.backup));
	case -ENOSPC:
		return slot_writes(slot) && excuses->full;
	case -ETIMEDOUT:
		return slot_writes(slot) && excuses->late;
	default:
		return false;
	}
}

static void read_check(const struct worker *worker, const struct program_slot *slot)
{
	const struct reference *reference = &worker->program->reference;
	char is[96];

	for (uint32_t i = 0; i < slot->io.count; i++) {
		uint64_t page = slot->io.page + i;
		const uint8_t *data = (const uint8_t *)slot->io.data + i * STORE_PAGE;

		if (!reference_allows(reference, page, data))
			world_fail("%s: page %llu reads as %s, not as version %u%s", worker->process->name,
				   (unsigned long long)page, reference_name(data, is), reference->page[page].version,
				   reference->page[page].torn ? " or some others" : "");
	}
}

static void write_settle(const struct worker *worker, const struct program_slot *slot, int status)
{
	struct reference *reference = &worker->program->reference;
	const struct far *far = (const struct far *)worker->store;

	for (uint64_t i = slot->io.page; i < slot->io.page + slot->io.count; i++) {
		struct reference_page *page = &reference->page[i];

		if (status) {
			reference_doubt(reference, i, page->under_way);
			continue;
		}
		reference_settle(reference, i, page->under_way);
		/* Each write has a new generation, unless the page was lost and its generations began anew. */
		if (page->under_way && page->generation != INTEGRITY_NONE &&
		    page->generation == far->integrity.generations[i] && slot->lost == far->lost_pages)
			world_fail("%s: page %llu is written twice as generation %u", worker->process->name,
				   (unsigned long long)i, page->generation);
	}
}

static void slot_end(struct worker *worker, const struct store_done *done)
{
	struct program *program = worker->program;
	struct program_slot *slot = &worker->slots[done->cookie];

	if (done->cookie >= program->config.depth || !slot->active) {
		world_fail("%s: a request is answered twice", worker->process->name);
		return;
	}
	world_tell("%s: %s of pages %llu to %llu: %s", worker->process->name, slot_writes(slot) ? "write" : "read",
		   (unsigned long long)slot->io.page, (unsigned long long)slot->io.page + slot->io.count - 1,
		   strerror(-done->status));
	if (done->status && !slot_is_excused(program, slot, done->status))
		world_fail("%s: a %s of pages %llu to %llu fails without a reason: %s", worker->process->name,
			   slot_writes(slot) ? "write" : "read", (unsigned long long)slot->io.page,
			   (unsigned long long)slot->io.page + slot->io.count - 1, strerror(-done->status));
	if (slot_writes(slot))
		write_settle(worker, slot, done->status);
	else if (done->status == 0)
		read_check(worker, slot);
	program->good += done->status == 0;
	program->failed += done->status != 0;
	pages_give(program, slot);
	slot->active = false;
	worker->active--;
}

/* Checks that pages may be damaged in this history, after a read found a bad checksum. */
static void damage_check(const struct worker *worker)
{
	bool excused = worker->program->config.excuses.damaged;

	for (unsigned i = 0; i < worker->program->config.depth; i++)
		excused |= worker->slots[i].active && slot_is_torn(worker->program, &worker->slots[i]);
	if (!excused)
		world_fail("%s: a replica has other bytes than were written to it", worker->process->name);
}

/* Takes the answers to requests. Returns false if the process is dead. */
static bool requests_end(struct worker *worker)
{
	const struct far_queue *queue = (const struct far_queue *)worker->queue;
	uint64_t damaged = queue->counters.checksum_errors;
	struct store_done dones[PROGRAM_DEPTH_MAX];
	int count = store_poll(worker->queue, dones, PROGRAM_DEPTH_MAX);

	if (worker->process->dead)
		return false;
	if (queue->counters.checksum_errors != damaged)
		damage_check(worker);
	for (int i = 0; i < count; i++)
		slot_end(worker, &dones[i]);
	return true;
}

/* --- Life ------------------------------------------------------------------------------------------------------- */

void worker_inherit(struct worker *worker, const struct worker *before, struct program *program)
{
	struct reference *reference = &program->reference;

	for (uint64_t i = before->discard_page; i < before->discard_page + before->discard_count; i++) {
		reference->page[i].writing = false;
		reference_doubt(reference, i, 0);
	}
	for (unsigned i = 0; i < program->config.depth; i++) {
		const struct program_slot *slot = &before->slots[i];

		if (!slot->active)
			continue;
		pages_give(program, slot);
		for (uint64_t j = slot->io.page; slot_writes(slot) && j < slot->io.page + slot->io.count; j++)
			reference_doubt(reference, j, reference->page[j].under_way);
		if (program->repeat)
			worker->slots[i].io = slot->io;
	}
}

/* Submits again the requests that the earlier process had in flight. */
static void requests_repeat(struct worker *worker)
{
	struct program *program = worker->program;

	for (unsigned i = 0; i < program->config.depth; i++) {
		struct program_slot *slot = &worker->slots[i];

		if (slot->io.count && pages_are_free(program, slot->io.page, slot->io.count, slot_writes(slot)))
			slot_submit(worker, i);
	}
}

/* Sleeps until there may be work. */
static void worker_sleep(const struct worker *worker)
{
	struct pollfd fd = {.fd = store_queue_fd(worker->queue), .events = POLLIN};
	bool more = worker->program->phase == PROGRAM_WORKS;

	if (world_chance(2) || !worker->active) {
		task_block(task_now() + 1 + world_below(worker->program->config.think_ns));
		return;
	}
	if (store_arm(worker->queue))
		return;
	poll(&fd, 1, more && world_chance(2) ? (int)world_below(20) : -1);
}

void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct program *program = worker->program;
	struct process *process = worker->process;
	int status;

	worker->data = world_memory(program->config.depth * RUN_BYTES);
	status = store_register(worker->store, worker->data, program->config.depth * RUN_BYTES, &worker->buffer);
	if (status == 0 && !process->dead)
		status = store_queue_open(worker->store, &worker->queue);
	if (status && !process->dead)
		world_fail("%s: cannot open a queue: %s", process->name, strerror(-status));
	if (status == 0 && worker->queue && !process->dead)
		requests_repeat(worker);
	while (worker->queue && !process->dead) {
		if (!requests_end(worker))
			break;
		if (program->phase == PROGRAM_WORKS)
			requests_start(worker);
		else if (!worker->active)
			break;
		if (!process->dead)
			worker_sleep(worker);
	}
	store_queue_close(worker->queue);
	store_deregister(worker->store, worker->buffer);
	return NULL;
}
