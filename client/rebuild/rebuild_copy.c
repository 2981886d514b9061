/* rebuild_copy: the parts of a window that are copied at the same time. See rebuild.h. */
#include "client/io/far_queue.h"
#include "client/rebuild/rebuild.h"

/* Returns how many parts may be under way. All of them must fit on the connection to one donor, because a write does
   not wait for room there. */
static unsigned parts_max(const struct rebuild *rebuild)
{
	const unsigned depth = rebuild->far->config.fabric.depth;

	return depth && depth < REBUILD_PARTS ? depth : REBUILD_PARTS;
}

static struct store_io part_io(const struct rebuild *rebuild, unsigned index, enum store_op op)
{
	const struct rebuild_part *part = &rebuild->parts[index];

	return (struct store_io){.op = op,
				 .count = part->run,
				 .page = part->page,
				 .data = rebuild->bytes + (size_t)index * REBUILD_PART * STORE_PAGE,
				 .buffer = rebuild->buffer,
				 .cookie = index};
}

/* Starts to read the window's next live pages. Returns false if there are none, or if the queue is full. */
static bool part_begin(struct rebuild *rebuild, unsigned index)
{
	const struct integrity *integrity = &rebuild->far->integrity;
	struct rebuild_part *part = &rebuild->parts[index];
	struct store_io io;
	uint64_t rest;

	while (rebuild->page < rebuild->window_end && integrity_kind(integrity, rebuild->page) != INTEGRITY_IS_LIVE)
		rebuild->page++;
	rest = rebuild->window_end - rebuild->page;
	if (!rest)
		return false;
	part->page = rebuild->page;
	part->run = integrity_run(integrity, part->page, rest < REBUILD_PART ? (uint32_t)rest : REBUILD_PART);
	part->writing = false;
	io = part_io(rebuild, index, STORE_READ);
	if (store_submit(rebuild->queue, &io, 1) != 1) {
		part->run = 0;
		return false;
	}
	rebuild->in_flight++;
	rebuild->page += part->run;
	return true;
}

bool rebuild_copy_go_on(struct rebuild *rebuild)
{
	bool goes_on = rebuild->unread == UINT64_MAX && !rebuild->unwritten;

	for (unsigned i = 0; i < parts_max(rebuild) && goes_on; i++)
		if (!rebuild->parts[i].run)
			goes_on = part_begin(rebuild, i);
	return rebuild->in_flight;
}

void rebuild_copy_answered(struct rebuild *rebuild, unsigned index, int status)
{
	struct rebuild_part *part = &rebuild->parts[index];

	if (status == 0 && !part->writing && !rebuild->unwritten) {
		const struct store_io io = part_io(rebuild, index, STORE_WRITE);

		part->writing = true;
		rebuild->in_flight++;
		far_queue_submit_to(rebuild->queue, &io, rebuild->donor, rebuild->jobs[rebuild->job].epoch);
		return;
	}
	if (status < 0 && part->writing) {
		rebuild->unwritten = true;
	} else if (status < 0 && part->page < rebuild->unread) {
		rebuild->unread = part->page;
		rebuild->singles = part->page + part->run;
	} else if (part->writing) {
		rebuild_copied(rebuild, part->page, part->run);
	}
	part->run = 0;
}
