/* program: see program.h. */
#include "tests/sim/program.h"

#include "client/backup/backup.h"
#include "client/lease/internal.h"
#include "tests/sim/net.h"
#include "tests/sim/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* A store gives a slab back half a second after its last page goes. A slow wire or a busy processor delays this. */
#define EMPTIES_NS (20 * SECOND)

static int state_new(void)
{
	int fd = memfd_create("state", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	return fd;
}

void program_open(struct program *program, unsigned index, unsigned host, const struct program_config *config)
{
	*program = (struct program){.config = *config, .host = host, .state_fd = -1};
	snprintf(program->name, sizeof program->name, "app%u", index);
	if (config->keeps_state)
		program->state_fd = state_new();
	reference_open(&program->reference, index, config->far.pages);
}

void program_close(struct program *program)
{
	if (program->state_fd >= 0)
		close(program->state_fd);
	program->state_fd = -1;
}

/* --- The process ------------------------------------------------------------------------------------------------ */

static void wait_empty(struct program *program, struct process *process)
{
	uint64_t until = task_now() + EMPTIES_NS;
	struct store_stats stats;
	unsigned lent;

	store_discard(program->store, 0, program->config.far.pages);
	for (uint64_t i = 0; i < program->config.far.pages && !process->dead; i++)
		reference_settle(&program->reference, i, 0);
	for (;;) {
		task_block(task_now() + 100 * MS);
		if (process->dead)
			return;
		store_stats(program->store, &stats);
		lent = program->config.lent(((const struct far *)program->store)->id);
		if (!stats.bytes_leased && !stats.pages_live && !lent)
			return;
		if (task_now() > until) {
			world_fail("%s: a store without contents keeps %llu bytes of slabs and %llu pages, and donors "
				   "lend it %u slabs",
				   program->name, (unsigned long long)stats.bytes_leased,
				   (unsigned long long)stats.pages_live, lent);
			return;
		}
	}
}

static void program_count(struct program *program)
{
	struct store_stats stats;

	store_stats(program->store, &stats);
	program->hedges += stats.hedges;
	program->rebuilt += stats.rebuilt_pages;
}

static void process_work(struct program *program, struct process *process)
{
	struct task *threads[PROGRAM_WORKERS_MAX];

	program->phase = PROGRAM_WORKS;
	for (unsigned i = 0; i < program->config.workers; i++) {
		struct worker *worker = program->workers[i];

		worker->program = program;
		worker->process = process;
		worker->store = program->store;
		threads[i] = task_create(process, "worker", worker_main, worker);
	}
	for (unsigned i = 0; i < program->config.workers; i++)
		pthread_join((pthread_t)threads[i], NULL);
}

/* Fails the history if the store found bad checksums although no page may be damaged. */
static void damage_check(const struct program *program, const struct process *process)
{
	struct store_stats stats;

	if (program->config.excuses.damaged || program->failed || program->starts > 1)
		return;
	store_stats(program->store, &stats);
	if (stats.checksum_errors)
		world_fail("%s: %llu pages that nobody has read look damaged", process->name,
			   (unsigned long long)stats.checksum_errors);
}

/* The main thread of a process. Once its process is killed, it does not touch the program any more. */
static void *program_main(void *argument)
{
	struct program *program = argument;
	struct process *process = task_process();
	struct far_config config = program->config.far;
	struct store *store = NULL;
	char path[64];
	int status;

	if (process->dead)
		return NULL;
	if (program->state_fd >= 0) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", program->state_fd);
		config.state_file = path;
	}
	status = far_open(&config, &store);
	if (!process->dead) {
		program->open_status = status;
		program->store = store;
		world_tell("%s: has opened its store: %s", process->name, strerror(-status));
	}
	if (status == 0 && !process->dead)
		process_work(program, process);
	if (status == 0 && !process->dead)
		damage_check(program, process);
	if (status == 0 && !process->dead && program->then == PROGRAM_EMPTY) {
		program->phase = PROGRAM_EMPTIES;
		wait_empty(program, process);
	}
	if (!process->dead)
		program->phase = PROGRAM_CLOSES;
	if (status == 0 && !process->dead)
		program_count(program);
	if (status == 0 && config.state_file && (process->dead || program->then == PROGRAM_LEAVE))
		far_leave(store);
	else if (status == 0)
		store_close(store);
	world_tell("%s: has ended", process->name);
	if (!process->dead) {
		program->phase = PROGRAM_DOWN;
		program->store = NULL;
	}
	return NULL;
}

void program_start(struct program *program, bool anew)
{
	char name[16];

	anew |= program->state_fd < 0;
	if (anew)
		reference_open(&program->reference, program->reference.store, program->config.far.pages);
	if (anew && program->starts && program->state_fd >= 0) {
		close(program->state_fd);
		program->state_fd = state_new();
	}
	snprintf(name, sizeof name, "%s.%u", program->name, ++program->starts);
	world_tell("%s: starts", name);
	for (unsigned i = 0; i < program->config.workers; i++) {
		const struct worker *before = program->workers[i];

		program->workers[i] = world_memory(sizeof *program->workers[i]);
		if (before && !anew)
			worker_inherit(program->workers[i], before, program);
	}
	program->phase = PROGRAM_OPENS;
	program->then = PROGRAM_CLOSE;
	program->process = process_create(name, program->host);
	task_create(program->process, "main", program_main, program);
}

/* Returns a copy of the file. */
static int state_copy(int fd)
{
	int copy = state_new();
	struct stat status;
	off_t from = 0;

	if (fstat(fd, &status) < 0 || ftruncate(copy, status.st_size) < 0 || lseek(copy, 0, SEEK_SET) < 0 ||
	    sendfile(copy, fd, &from, (size_t)status.st_size) != status.st_size)
		abort();
	return copy;
}

void program_kill(struct program *program)
{
	world_tell("%s: is killed", program->process->name);
	if (program->state_fd >= 0) {
		int copy = state_copy(program->state_fd);

		/* The killed process still has the old file open. */
		close(program->state_fd);
		program->state_fd = copy;
	}
	program->adoptions++;
	program->repeat = world_chance(2);
	program->phase = PROGRAM_DOWN;
	program->store = NULL;
	net_kill(program->process, world_chance(4));
}

void program_end(struct program *program, enum program_end end)
{
	program->then = end;
	if (program->phase == PROGRAM_WORKS)
		program->phase = PROGRAM_DRAINS;
}

/* Notes in the reference which pages are on the disk now. */
static void saved_note(const struct program *program)
{
	const struct far *far = (const struct far *)program->store;

	if (!far->backup || backup_behind(far->backup))
		return;
	for (uint64_t i = 0; i < program->reference.pages; i++) {
		struct reference_page *page = &program->reference.page[i];
		/*
		 * A page that only the disk has may be lost: a process may have been killed while writing it.
		 */
		bool live = integrity_kind(&far->integrity, i) == INTEGRITY_IS_LIVE;

		page->saved = !page->writing && (page->saved || live);
	}
}

/* Donors may be away for half of last_timeout_ms (donor_may_go() in faults.c). A client waits that long only for a
   donor with the last copy of a page. So it may give up another donor, and then loses no page. */
static bool may_be_given_up(const struct far *far)
{
	return far->config.last_timeout_ms > far->config.timeout_ms && !far->lost_pages;
}

static void donors_check(const struct program *program)
{
	const struct far *far = (const struct far *)program->store;

	for (unsigned i = 0; i < far->donor_count; i++) {
		const struct leases_donor *donor = &far->leases.donors[i];

		if ((donor->away || !donor->live) && (donor->asked || donor->waiting))
			world_fail("%s: donor %u is asked for something while it is away", program->process->name, i);
		if (far->donors[i].comeback.status == -EPROTO)
			world_fail("%s: donor %u broke the protocol", program->process->name, i);
		if (far->donors[i].status && !program->config.excuses.donors && !may_be_given_up(far))
			world_fail("%s: donor %u is given up, and was only away", program->process->name, i);
	}
}

void program_check(const struct program *program)
{
	const struct process *process = program->process;

	if (program->phase != PROGRAM_WORKS && program->phase != PROGRAM_DRAINS)
		return;
	saved_note(program);
	donors_check(program);
	for (unsigned i = 0; i < program->config.workers; i++) {
		for (unsigned j = 0; j < program->config.depth; j++) {
			const struct program_slot *slot = &program->workers[i]->slots[j];
			uint64_t stalled = process->stalled - slot->stalled;

			if (slot->active && world_now() > slot->since + stalled + program->config.bound_ns)
				world_fail("%s: a %s of page %llu is not answered for %llu ms", process->name,
					   slot->io.op == STORE_READ ? "read" : "write",
					   (unsigned long long)slot->io.page,
					   (unsigned long long)((world_now() - slot->since) / MS));
		}
	}
}

static bool chunk_is_apart(const struct chunk_table *table, uint64_t index, const char *const domains[],
			   unsigned ret_mates[2])
{
	struct chunk_slot slots[FAR_SLOTS_MAX];

	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		for (unsigned j = 0; j < i; j++) {
			const char *domain = slots[i].state == SLOT_FULL ? domains[slots[i].donor] : NULL;

			if (slots[i].state != SLOT_FULL || slots[j].state != SLOT_FULL)
				continue;
			if (slots[i].donor != slots[j].donor && (!domain || domain != domains[slots[j].donor]))
				continue;
			ret_mates[0] = slots[j].donor;
			ret_mates[1] = slots[i].donor;
			return false;
		}
	}
	return true;
}

/*
 * A recalled replica and its replacement may be in the same domain until the recalled one goes. If the donor ends the
 * recall, both may stay there until another replacement is made.
 */
static void chunk_check_apart(struct program *program, const struct far *far, uint64_t index,
			      const char *const domains[])
{
	const bool excused =
	    chunk_has_spare(&far->table, index) || leases_recalled_slots(&far->leases, (uint32_t)index);
	unsigned mates[2];

	if (chunk_is_apart(&far->table, index, domains, mates) || excused)
		program->excused[index] = excused;
	else if (!program->excused[index])
		world_fail("%s: chunk %llu has replicas on donors %u and %u, which fail together",
			   program->process->name, (unsigned long long)index, mates[0], mates[1]);
}

void program_check_apart(struct program *program, const char *const domains[])
{
	const struct far *far = (const struct far *)program->store;

	if (program->phase != PROGRAM_WORKS && program->phase != PROGRAM_DRAINS)
		return;
	assert(far->table.count <= PROGRAM_CHUNKS_MAX);
	for (uint64_t i = 0; i < far->table.count; i++)
		if (chunk_state(&far->table, i) == CHUNK_READY)
			chunk_check_apart(program, far, i, domains);
}

bool program_is_settled(const struct program *program)
{
	const struct far *far = (const struct far *)program->store;

	for (uint64_t i = 0; program->phase == PROGRAM_WORKS && i < far->table.count; i++)
		if (chunk_has_spare(&far->table, i))
			return false;
	return true;
}
