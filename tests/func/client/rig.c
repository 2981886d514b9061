/* rig: see rig.h. */
#include "tests/func/client/rig.h"

#include "client/far_store.h"
#include "client/io/far_link.h"
#include "client/io/far_piece.h"
#include "common/clock.h"
#include "common/random.h"
#include "wire/wire.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RIG_PATIENCE_MS 60000u

void rig_donors(struct rig *rig, unsigned count, const char *donate)
{
	rig_donors_in(rig, count, donate, NULL);
}

void rig_donors_in(struct rig *rig, unsigned count, const char *donate, const char *const domains[])
{
	const char *arguments[] = {"--donate", donate, "--slab", "1M", "--reserve", "1M", NULL, NULL, NULL};

	memset(rig, 0, sizeof *rig);
	for (unsigned i = 0; i < count; i++) {
		arguments[6] = domains ? "--domain" : NULL;
		arguments[7] = domains ? domains[i] : NULL;
		donor_start_list(&rig->donors[i], NULL, arguments);
	}
	rig->donor_count = count;
	rig->config = (struct far_config){.donor_count = count, .replicas = 1, .grace_ms = 1000};
	rig->config.fabric = FABRIC_CONFIG_DEFAULT;
	rig->config.timeout_ms = RIG_TIMEOUT_MS;
	rig->config.encrypt = getenv("FARPAGE_TEST_ENCRYPT") != NULL;
}

void rig_state(struct rig *rig)
{
	rig->state_fd = memfd_create("state", MFD_CLOEXEC);
	if (rig->state_fd < 0)
		tap_bail("no state file");
	snprintf(rig->state_path, sizeof rig->state_path, "/proc/self/fd/%d", rig->state_fd);
	rig->config.state_file = rig->state_path;
	rig->config.grace_ms = 0; /* the default */
}

static struct stat state_stat(const struct rig *rig)
{
	struct stat status;

	if (fstat(rig->state_fd, &status) < 0)
		tap_bail("the state file is gone");
	return status;
}

uint64_t rig_state_length(const struct rig *rig)
{
	return (uint64_t)state_stat(rig).st_size;
}

uint64_t rig_state_bytes(const struct rig *rig)
{
	return (uint64_t)state_stat(rig).st_blocks * 512;
}

int rig_try(struct rig *rig)
{
	const char *uris[RIG_DONORS_MAX];
	int status;

	for (unsigned i = 0; i < rig->donor_count; i++) {
		memcpy(rig->uris[i], rig->donors[i].uri, sizeof rig->donors[i].uri);
		uris[i] = rig->uris[i];
	}
	rig->config.donors = uris;
	status = far_open(&rig->config, &rig->store);
	rig->config.donors = NULL;
	return status;
}

/* Stops each donor, and prints its exit status and its log. */
static void donors_tell(struct rig *rig)
{
	for (unsigned i = 0; i < rig->donor_count; i++) {
		int status = donor_stop(&rig->donors[i], SIGTERM);

		printf("# donor %s, ended with %d: %s\n", rig->donors[i].uri, status, rig->donors[i].log);
	}
}

void rig_open(struct rig *rig)
{
	if (rig_try(rig) < 0) {
		donors_tell(rig);
		tap_bail("far_open fails");
	}
	if (store_queue_open(rig->store, &rig->queue) < 0)
		tap_bail("store_queue_open fails");
	rig->bytes =
	    mmap(NULL, RIG_BUFFER_PAGES * STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rig->bytes == MAP_FAILED ||
	    store_register(rig->store, rig->bytes, RIG_BUFFER_PAGES * STORE_PAGE, &rig->buffer) < 0)
		tap_bail("no buffer");
}

void rig_shut(struct rig *rig, bool leave)
{
	if (!rig->store)
		return;
	store_queue_close(rig->queue);
	store_deregister(rig->store, rig->buffer);
	if (leave)
		far_leave(rig->store);
	else
		store_close(rig->store);
	munmap(rig->bytes, RIG_BUFFER_PAGES * STORE_PAGE);
	rig->store = NULL;
}

void rig_close(struct rig *rig)
{
	rig_shut(rig, false);
	for (unsigned i = 0; i < rig->donor_count; i++) {
		int status = rig->donors[i].pid ? donor_stop(&rig->donors[i], SIGTERM) : 0;

		if (status)
			tap_bail("the donor at %s ends with %d: %s", rig->donors[i].uri, status, rig->donors[i].log);
	}
	rig->donor_count = 0;
	if (rig->config.state_file)
		close(rig->state_fd);
	rig->config.state_file = NULL;
}

int rig_wait(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	uint64_t end = clock_now() + RIG_PATIENCE_MS * UINT64_C(1000000);

	while (clock_now() < end) {
		struct pollfd fd = {.fd = store_queue_fd(queue), .events = POLLIN};
		int count = store_poll(queue, dones, max);

		if (count)
			return count;
		if (store_arm(queue) == 0)
			poll(&fd, 1, 1000);
	}
	tap_bail("a request is never answered");
	return 0;
}

int rig_io(struct rig *rig, struct store_queue *queue, enum store_op op, uint64_t page, uint32_t count, void *data)
{
	struct store_io io = {
	    .op = op, .count = count, .page = page, .data = data, .buffer = rig->buffer, .cookie = page};
	struct store_done done;

	if (store_submit(queue, &io, 1) != 1)
		tap_bail("the queue accepts no request");
	rig_wait(queue, &done, 1);
	if (done.cookie != page)
		tap_bail("another request was answered");
	return done.status;
}

int rig_read(struct rig *rig, uint64_t page, uint32_t count, void *data)
{
	return rig_io(rig, rig->queue, STORE_READ, page, count, data);
}

int rig_write(struct rig *rig, uint64_t page, uint32_t count, void *data)
{
	return rig_io(rig, rig->queue, STORE_WRITE, page, count, data);
}

/* Prints the first line of the file @name in the process's folder of /proc. */
static void process_tell(int pid, const char *name)
{
	char path[64], line[512] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	file = fopen(path, "r");
	if (file && fgets(line, sizeof line, file))
		line[strcspn(line, "\n")] = 0;
	if (file)
		fclose(file);
	printf("#   %s: %s\n", path, line);
}

void rig_tell_open(const struct rig *rig)
{
	const struct far_queue *queue = (const struct far_queue *)rig->queue;
	uint64_t now = clock_now();

	for (unsigned i = 0; i < rig->donor_count; i++) {
		const struct far_link *link = &queue->links[i];

		printf("# donor %u: %sconnected, p99 of its answers %llu us\n", i, link->established ? "" : "not ",
		       (unsigned long long)(link->latency.p99 / 1000));
		process_tell(rig->donors[i].pid, "stat");
		process_tell(rig->donors[i].pid, "wchan");
		process_tell(rig->donors[i].pid, "schedstat"); /* ns on a processor, and ns waiting for one */
	}
	for (unsigned i = 0; i < queue->depth; i++) {
		const struct far_piece *piece = &queue->pieces[i];

		if (piece->state == PIECE_FREE)
			continue;
		printf("# page %llu: state %d, sent to donor %u first, %s hedge buffer",
		       (unsigned long long)piece->page, (int)piece->state, piece->donor,
		       piece->tries[0].buffer ? "with a" : "without a");
		if (piece->tries[0].posted_at) /* known only of reads that got a hedge buffer */
			printf(", sent %llu us ago", (unsigned long long)((now - piece->tries[0].posted_at) / 1000));
		printf(", no answer from");
		for (unsigned donor = 0; donor < rig->donor_count; donor++)
			if (few_donors_has(&piece->left, donor))
				printf(" %u", donor);
		printf("\n");
	}
	printf("# reads are overdue after %llu us, credit %u, free buffers %x\n",
	       (unsigned long long)(queue->hedge.limit / 1000), queue->hedge.credit, queue->hedge.idle);
}

struct far_donor_info rig_figures(const struct rig *rig, unsigned index)
{
	struct far_donor_info donor = {0};

	donor.status = far_query(&rig->config, rig->donors[index].uri, &donor);
	return donor;
}

uint64_t rig_time_lost(const struct rig *rig)
{
	return ((const struct far *)rig->store)->patience.lost;
}

struct store_stats rig_stats(const struct rig *rig)
{
	struct store_stats stats;

	store_stats(rig->store, &stats);
	return stats;
}

static uint64_t figure_at(const struct rig *rig, size_t offset)
{
	struct store_stats stats = rig_stats(rig);
	uint64_t value;

	memcpy(&value, (const uint8_t *)&stats + offset, sizeof value);
	return value;
}

bool rig_figure_is(const struct rig *rig, size_t offset, uint64_t least, uint64_t most)
{
	uint64_t value;

	if (wait_until_ms(RIG_PATIENCE_MS, (value = figure_at(rig, offset)) >= least && value <= most))
		return true;
	printf("# it is %llu, not %llu\n", (unsigned long long)value, (unsigned long long)least);
	return false;
}

void rig_rest(struct store_queue *queue)
{
	struct store_done done;

	while (!store_quiet(queue)) {
		if (store_poll(queue, &done, 1))
			tap_bail("an answer comes to no request");
		sched_yield();
	}
}

static uint64_t leased_together(const struct rig *rig)
{
	uint64_t leased = 0;

	for (unsigned i = 0; i < rig->donor_count; i++)
		if (rig->donors[i].pid)
			leased += rig_figures(rig, i).leased;
	return leased;
}

bool rig_wait_leased(const struct rig *rig, uint64_t bytes)
{
	uint64_t leased = 0;

	if (wait_until_ms(RIG_PATIENCE_MS / 6, (leased = leased_together(rig)) == bytes))
		return true;
	printf("# leased: %llu, wanted: %llu\n", (unsigned long long)leased, (unsigned long long)bytes);
	return false;
}

static bool some_donor_lends(const struct rig *rig)
{
	for (unsigned i = 0; i < rig->donor_count; i++)
		if (rig->donors[i].pid && rig_figures(rig, i).state == WIRE_STATE_LENDING)
			return true;
	return false;
}

bool rig_wait_room(const struct rig *rig)
{
	return wait_until_ms(RIG_PATIENCE_MS / 6, some_donor_lends(rig));
}

void rig_fill(void *data, uint64_t page, uint64_t version)
{
	struct random_state random;
	uint64_t *words = data;

	random_seed(&random, page * 1000003 + version);
	memset(data, 0, STORE_PAGE);
	for (unsigned i = 0; i < STORE_PAGE / sizeof *words; i += 8)
		words[i] = random_next(&random) | 1;
}

bool rig_is(const void *data, uint64_t page, uint64_t version)
{
	static _Thread_local uint64_t expected[STORE_PAGE / sizeof(uint64_t)];

	rig_fill(expected, page, version);
	return !memcmp(data, expected, STORE_PAGE);
}

bool rig_is_zero(const void *data)
{
	static const uint8_t zeroes[STORE_PAGE];

	return !memcmp(data, zeroes, STORE_PAGE);
}

int rig_put_run(struct rig *rig, uint64_t page, uint32_t count, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		rig_fill(rig->bytes + (size_t)i * STORE_PAGE, page + i, version);
	return rig_write(rig, page, count, rig->bytes);
}

int rig_put(struct rig *rig, uint64_t page, uint64_t version)
{
	return rig_put_run(rig, page, 1, version);
}

unsigned rig_put_each(struct rig *rig, uint64_t first, uint64_t count, uint64_t version)
{
	unsigned failed = 0;

	for (uint64_t page = first; page < first + count; page++)
		failed += rig_put(rig, page, version) != 0;
	return failed;
}

bool rig_has(struct rig *rig, uint64_t page, uint64_t version)
{
	memset(rig->bytes, 0xee, STORE_PAGE);
	if (rig_read(rig, page, 1, rig->bytes))
		return false;
	return version ? rig_is(rig->bytes, page, version) : rig_is_zero(rig->bytes);
}

unsigned rig_wrong(struct rig *rig, uint64_t first, uint64_t count, uint64_t version)
{
	unsigned wrong = 0;

	for (uint64_t page = first; page < first + count; page++)
		wrong += !rig_has(rig, page, version);
	return wrong;
}
