#include "client/io/far_queue.h"

#include "client/io/far_answer.h"
#include "client/io/far_backup.h"
#include "client/io/far_link.h"
#include "client/io/far_piece.h"
#include "client/io/far_published.h"
#include "client/io/far_request.h"
#include "common/format.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUEUE_EVENTS 32u
/* While polls return events, only one in this many calls far_hedge_look(). */
#define POLLS_PER_HEDGE_LOOK 32u

/* --- Submitting ----------------------------------------------------------------------------------------------- */

static bool queue_is_full(const struct far_queue *queue)
{
	/* A completion that was not polled yet occupies a request's place, so that the ring of completions cannot
	   overflow. */
	return queue->idle_request_count <= queue->tail - queue->head || queue->congested;
}

int far_queue_submit(struct store_queue *base, const struct store_io *ios, unsigned count)
{
	struct far_queue *queue = (struct far_queue *)base;
	unsigned taken = 0;
	uint64_t reads = 0, writes = 0;

	for (; taken < count && !queue_is_full(queue); taken++) {
		if (ios[taken].op == STORE_READ)
			reads += ios[taken].count;
		else
			writes += ios[taken].count;
		far_request_submit(queue, &ios[taken], FAR_NONE, 0);
	}
	far_links_flush(queue);
	if (queue->direct)
		return (int)taken; /* requests of the rebuild thread do not count as the program's */
	far_count(&queue->counters.reads, reads);
	far_count(&queue->counters.writes, writes);
	return (int)taken;
}

void far_queue_submit_to(struct store_queue *base, const struct store_io *io, unsigned donor, uint32_t epoch)
{
	struct far_queue *queue = (struct far_queue *)base;

	assert(queue->direct && far_chunk_end(queue->far, io->page) - io->page >= io->count);
	far_request_submit(queue, io, donor, epoch);
	far_links_flush(queue);
}

void far_queue_direct(struct store_queue *base)
{
	struct far_queue *queue = (struct far_queue *)base;
	uint64_t memory = far_hedge_memory(queue) + far_sealed_memory(queue);

	assert(queue->idle_request_count == queue->depth);
	queue->direct = true;
	far_hedge_close(queue);
	far_sealed_direct(queue);
	memory -= far_sealed_memory(queue);
	queue->memory -= memory;
	queue->far->queue_memory -= memory;
}

bool far_queue_is_at(const struct far_queue *queue, uint64_t page, uint64_t count, const uint32_t *version)
{
	for (unsigned i = 0; i < queue->depth; i++) {
		uint64_t word = atomic_load(&queue->published[i]);

		if (!published_overlaps(word, page, count))
			continue;
		if (version ? !published_is_of(word, *version) : published_is_write(word))
			return true;
	}
	return false;
}

unsigned far_queue_busy(const struct far_queue *queue)
{
	return atomic_load_explicit(&queue->under_way, memory_order_relaxed);
}

/* --- Connections ---------------------------------------------------------------------------------------------- */

static int link_connect(struct far_queue *queue, unsigned index)
{
	struct far *far = queue->far;
	struct far_donor *donor = &far->donors[index];
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_ATTACH};
	uint8_t bytes[WIRE_HELLO_SIZE];
	char via[sizeof donor->via];

	memcpy(hello.id, far->id, WIRE_ID_SIZE);
	pthread_mutex_lock(&far->attach);
	hello.counter = ++donor->attach_counter;
	auth_attach_mac(donor->session_key, far->id, hello.counter, hello.mac);
	memcpy(via, donor->via, sizeof via); /* may have changed, if the donor was removed and added again */
	pthread_mutex_unlock(&far->attach);
	wire_encode_hello(&hello, bytes);
	return fabric_connect(queue->fabric, far->domain, via, bytes, sizeof bytes, (void *)(uintptr_t)index,
			      &queue->links[index].conn);
}

/* Ends the connection to the donor, if any, and so fences it. Its operations in flight are carried out anew. */
static void link_drop(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];

	fabric_disconnect(link->conn);
	link->conn = NULL;
	link->established = false;
	link->staged = 0;
	for (unsigned i = 0; i < queue->depth; i++)
		if (few_donors_has(&queue->pieces[i].left, donor))
			far_answer_take(queue, (uint16_t)i, donor, false);
	queue->look = true;
}

static void link_broke(struct far_queue *queue, unsigned donor, int status)
{
	link_drop(queue, donor);
	mailbox_put_break(&queue->far->mailbox, donor, queue->links[donor].round, status ? status : -ECONNRESET);
}

/* If the donor's round has changed, ends the connection of the old round. If the donor is up, connects to it. */
static void link_follow(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];
	uint32_t round = atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire);
	int error;

	if (link->round == round)
		return;
	link_drop(queue, donor);
	link->round = round;
	if (!(round & 1))
		return;
	error = link_connect(queue, donor);
	if (error < 0)
		link_broke(queue, donor, error);
}

void far_link_need(struct far_queue *queue, unsigned donor)
{
	/* A connection of an earlier round is ended by links_follow(), and not here: that answers requests, and this
	   function is called while a request is carried out. */
	if (queue->connects_late && !queue->links[donor].conn)
		link_follow(queue, donor);
}

static void links_follow(struct far_queue *queue)
{
	queue->changes = atomic_load_explicit(&queue->far->changes, memory_order_acquire);
	for (unsigned i = 0; i < queue->far->donor_count; i++)
		if (!queue->connects_late || queue->links[i].conn)
			link_follow(queue, i);
	queue->look = true;
}

/* Counts the memory of a connection that was made after the queue was opened, unless the link had one before. */
static void link_count(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];
	uint64_t memory = fabric_conn_memory(link->conn);

	if (!queue->connects_late || link->counted)
		return;
	link->counted = true;
	queue->memory += memory;
	queue->far->queue_memory += memory;
}

static void link_event(struct far_queue *queue, const struct fabric_event *event)
{
	unsigned donor = (unsigned)(uintptr_t)event->user;

	/* Ignores events of a connection that was ended. */
	if (event->conn != queue->links[donor].conn)
		return;
	if (event->kind == FABRIC_DONE && event->status == 0) {
		queue->look |= queue->congested;
		far_answer_take(queue, (uint16_t)event->cookie, donor, true);
	} else if (event->kind == FABRIC_DONE || event->kind == FABRIC_DISCONNECTED) {
		link_broke(queue, donor, event->status);
	} else if (event->kind == FABRIC_ESTABLISHED) {
		queue->links[donor].established = true;
		queue->look = true;
		link_count(queue, donor);
	}
}

static void queue_event(struct far_queue *queue, const struct fabric_event *event)
{
	eventfd_t value;

	if (event->kind != FABRIC_READABLE) {
		link_event(queue, event);
		return;
	}
	eventfd_read(queue->wake, &value);
	queue->look = true;
}

/* --- Polling -------------------------------------------------------------------------------------------------- */

int far_queue_poll(struct store_queue *base, struct store_done *dones, unsigned max)
{
	struct far_queue *queue = (struct far_queue *)base;
	struct fabric_event events[QUEUE_EVENTS];
	int count = fabric_poll(queue->fabric, events, QUEUE_EVENTS);
	unsigned written = 0;

	for (int i = 0; i < count; i++)
		queue_event(queue, &events[i]);
	if (atomic_load_explicit(&queue->far->changes, memory_order_acquire) != queue->changes)
		links_follow(queue);
	if (queue->backup_ios && atomic_load_explicit(&queue->backup_answers, memory_order_relaxed))
		far_answer_collect(queue);
	if (queue->look && queue->parked_head != queue->parked_tail)
		far_request_look(queue);
	if (queue->hedge.memory && (!count || ++queue->polls % POLLS_PER_HEDGE_LOOK == 0))
		far_hedge_look(queue);
	while (written < max && queue->head != queue->tail)
		dones[written++] = queue->dones[queue->head++ % queue->depth];
	return (int)written;
}

int far_queue_fd(const struct store_queue *base)
{
	return fabric_fd(((const struct far_queue *)base)->fabric);
}

int far_queue_arm(struct store_queue *base)
{
	struct far_queue *queue = (struct far_queue *)base;

	if (queue->head != queue->tail || (queue->look && queue->parked_head != queue->parked_tail))
		return 1;
	return fabric_arm_until(queue->fabric, queue->hedge.memory ? far_hedge_due(queue) : UINT64_MAX);
}

bool far_queue_quiet(const struct store_queue *base)
{
	return !((const struct far_queue *)base)->late;
}

void far_queue_wake(struct far_queue *queue, bool all)
{
	if (atomic_exchange(&queue->waiting, false) || all)
		eventfd_write(queue->wake, 1);
}

void far_queue_count(const struct far_queue *queue, struct far_counters *counters)
{
	counters->reads += queue->counters.reads;
	counters->writes += queue->counters.writes;
	counters->zero_reads += queue->counters.zero_reads;
	counters->checksum_errors += queue->counters.checksum_errors;
	counters->rebuilt += queue->counters.rebuilt;
	counters->repaired += queue->counters.repaired;
	counters->scrubbed += queue->counters.scrubbed;
	counters->hedges += queue->counters.hedges;
	counters->hedges_won += queue->counters.hedges_won;
	counters->backup_reads += queue->counters.backup_reads;
	counters->backup_writes += queue->counters.backup_writes;
	counters->returned += queue->counters.returned;
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

static void queue_free(struct far_queue *queue)
{
	fabric_close(queue->fabric);
	far_hedge_close(queue);
	far_sealed_close(queue);
	far_backup_queue_close(queue);
	if (queue->wake >= 0)
		close(queue->wake);
	free(queue->links);
	free(queue->requests);
	free(queue->pieces);
	free((void *)queue->published);
	free(queue->idle_requests);
	free(queue->idle_pieces);
	free(queue->parked);
	free(queue->staged);
	free(queue->dones);
	free(queue);
}

static uint64_t queue_memory(const struct far_queue *queue)
{
	const struct far *far = queue->far;
	uint64_t links = 0;

	for (unsigned i = 0; i < far->donor_count; i++)
		links += queue->links[i].conn ? fabric_conn_memory(queue->links[i].conn) : 0;
	return links + far_hedge_memory(queue) + far_sealed_memory(queue) + sizeof(struct far_queue) +
	       far->donor_count * (sizeof(struct far_link) + sizeof(uint16_t)) +
	       queue->depth * (sizeof(struct far_request) + sizeof(struct far_piece) + sizeof(uint64_t) +
			       3 * sizeof(uint16_t) + sizeof(struct store_done));
}

/* Returns a zeroed array whose memory is present, so that the first request takes no page fault. */
static void *array_allocate(size_t count, size_t size)
{
	void *array = malloc(count * size);

	return array ? memset(array, 0, count * size) : NULL;
}

static int queue_allocate(struct far *far, struct far_queue **ret_queue)
{
	struct far_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return -ENOMEM;
	queue->base.store = &far->base;
	queue->far = far;
	queue->depth = far->config.queue_depth ? far->config.queue_depth : FAR_QUEUE_DEPTH;
	queue->wake = -1;
	queue->connects_late = far->config.connect_late || far->donor_count > FAR_DONORS_EAGER;
	/* The links of donors that are not used yet need no memory. */
	queue->links = calloc(far->donor_places, sizeof *queue->links);
	if (queue->links && !queue->connects_late)
		memset(queue->links, 0, far->donor_count * sizeof *queue->links);
	queue->requests = array_allocate(queue->depth, sizeof *queue->requests);
	queue->pieces = array_allocate(queue->depth, sizeof *queue->pieces);
	queue->published = array_allocate(queue->depth, sizeof *queue->published);
	queue->idle_requests = array_allocate(queue->depth, sizeof *queue->idle_requests);
	queue->idle_pieces = array_allocate(queue->depth, sizeof *queue->idle_pieces);
	queue->parked = array_allocate(queue->depth, sizeof *queue->parked);
	queue->dones = array_allocate(queue->depth, sizeof *queue->dones);
	queue->staged = array_allocate(far->donor_places, sizeof *queue->staged);
	if (!queue->links || !queue->requests || !queue->pieces || !queue->published || !queue->idle_requests ||
	    !queue->idle_pieces || !queue->parked || !queue->dones || !queue->staged) {
		queue_free(queue);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < queue->depth; i++)
		queue->idle_requests[i] = queue->idle_pieces[i] = (uint16_t)i;
	queue->idle_request_count = queue->idle_piece_count = queue->depth;
	*ret_queue = queue;
	return 0;
}

static unsigned links_connecting(const struct far_queue *queue)
{
	unsigned count = 0;

	for (unsigned i = 0; i < queue->far->donor_count; i++)
		count += queue->links[i].conn && !queue->links[i].established;
	return count;
}

/* Connects to all donors that are up, unless the queue connects late. A donor that cannot be reached is handled like a
   broken connection. */
static int queue_connect(struct far_queue *queue)
{
	links_follow(queue);
	/* Each connection is established or ends within connect_ms. */
	while (links_connecting(queue)) {
		struct fabric_event events[QUEUE_EVENTS];
		int count = fabric_wait(queue->fabric, events, QUEUE_EVENTS, -1);

		if (count < 0)
			return count;
		for (int i = 0; i < count; i++)
			queue_event(queue, &events[i]);
	}
	return 0;
}

static int queue_set_up(struct far_queue *queue)
{
	struct far *far = queue->far;
	struct fabric_config config = far->config.fabric;
	int error;

	/* A connect gets at least as much time as an operation. */
	if (config.connect_ms < config.io_ms)
		config.connect_ms = config.io_ms;
	error = fabric_open(&config, &queue->fabric);

	if (error < 0)
		return error;
	queue->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (queue->wake < 0)
		return -errno;
	if (far->config.replicas > 1)
		error = far_hedge_open(queue);
	if (error == 0 && far->config.encrypt)
		error = far_sealed_open(queue);
	if (error == 0)
		error = far_backup_queue_open(queue);
	if (error == 0)
		error = fabric_watch(queue->fabric, queue->wake, NULL);
	return error < 0 ? error : queue_connect(queue);
}

int far_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct far *far = (struct far *)store;
	struct far_queue *queue;
	int error = queue_allocate(far, &queue);

	if (error < 0)
		return error;
	error = queue_set_up(queue);
	if (error < 0) {
		log_error("cannot connect to the donors: %s", format_errno(error));
		queue_free(queue);
		return error;
	}
	queue->memory = queue_memory(queue);
	far->queue_memory += queue->memory;
	pthread_mutex_lock(&far->lock);
	LIST_INSERT_HEAD(&far->queues, queue, link);
	pthread_mutex_unlock(&far->lock);
	*ret_queue = &queue->base;
	return 0;
}

void far_queue_close(struct store_queue *base)
{
	struct far_queue *queue = (struct far_queue *)base;
	struct far *far = queue->far;

	far_backup_queue_end(queue);
	/* No LATE piece (far_hedge.h) will be polled any more, but each still protects its slabs from being released.
	   Ending the connections ends these pieces. Other threads find the pieces only through far->queues, so the
	   queue leaves that list only after its connections have ended. */
	for (unsigned i = 0; i < far->donor_count; i++)
		if (queue->links[i].conn)
			link_drop(queue, i);
	pthread_mutex_lock(&far->lock);
	LIST_REMOVE(queue, link);
	far_queue_count(queue, &far->closed);
	pthread_mutex_unlock(&far->lock);
	far->queue_memory -= queue->memory;
	queue_free(queue);
}
