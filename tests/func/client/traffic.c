/* traffic: see traffic.h. */
#include "tests/func/client/traffic.h"

#include "common/clock.h"
#include "common/log.h"
#include "tests/lib/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- Requests --------------------------------------------------------------------------------------------------- */

void traffic_begin(struct traffic *traffic, struct rig *rig, uint64_t seed)
{
	memset(traffic, 0, sizeof *traffic);
	traffic->rig = rig;
	random_seed(&traffic->random, seed);
	traffic_rewrite(traffic, TRAFFIC_PAGES);
	if (traffic->failed)
		tap_bail("%u pages cannot be written", traffic->failed);
}

static void slot_start(struct traffic *traffic, unsigned index)
{
	uint32_t page = (uint32_t)random_below(&traffic->random, TRAFFIC_PAGES);
	struct store_io *io = &traffic->slots[index].io;

	if (traffic->busy[page])
		return;
	*io = (struct store_io){.op = random_below(&traffic->random, 2) ? STORE_READ : STORE_WRITE,
				.count = 1,
				.page = page,
				.data = traffic->rig->bytes + (size_t)index * STORE_PAGE,
				.buffer = traffic->rig->buffer,
				.cookie = index};
	traffic->slots[index].version = ++traffic->version;
	if (io->op == STORE_WRITE)
		rig_fill(io->data, page, traffic->version);
	else
		memset(io->data, 0, STORE_PAGE);
	if (store_submit(traffic->rig->queue, io, 1) != 1)
		return;
	traffic->busy[page] = traffic->slots[index].active = true;
	traffic->slots[index].since = clock_now();
	traffic->active++;
}

static void slot_end(struct traffic *traffic, const struct store_done *done)
{
	uint32_t page = (uint32_t)traffic->slots[done->cookie].io.page;
	const struct store_io *io = &traffic->slots[done->cookie].io;
	uint64_t took = clock_now() - traffic->slots[done->cookie].since;

	if (!traffic->slots[done->cookie].active)
		tap_bail("a request is answered twice");
	if (done->status)
		traffic->failed++;
	else if (io->op == STORE_WRITE)
		traffic->versions[page] = traffic->slots[done->cookie].version;
	else
		traffic->wrong += !rig_is(io->data, page, traffic->versions[page]);
	traffic->slowest = took > traffic->slowest ? took : traffic->slowest;
	traffic->busy[page] = traffic->slots[done->cookie].active = false;
	traffic->active--;
	traffic->done++;
}

void traffic_run(struct traffic *traffic, unsigned ms)
{
	uint64_t end = clock_now() + ms * UINT64_C(1000000);
	struct store_done dones[TRAFFIC_DEPTH];

	while (clock_now() < end || traffic->active) {
		for (unsigned i = 0; i < TRAFFIC_DEPTH && clock_now() < end; i++)
			if (!traffic->slots[i].active)
				slot_start(traffic, i);
		for (int i = 0, count = traffic->active ? rig_wait(traffic->rig->queue, dones, TRAFFIC_DEPTH) : 0;
		     i < count; i++)
			slot_end(traffic, &dones[i]);
	}
	rig_rest(traffic->rig->queue);
}

void traffic_rewrite(struct traffic *traffic, uint32_t count)
{
	for (uint32_t page = 0; page < count; page++) {
		traffic->versions[page] = ++traffic->version;
		traffic->failed += rig_put(traffic->rig, page, traffic->version) != 0;
	}
}

unsigned traffic_check(struct traffic *traffic)
{
	unsigned wrong = 0;

	for (uint32_t page = 0; page < TRAFFIC_PAGES; page++)
		wrong += !rig_has(traffic->rig, page, traffic->versions[page]);
	rig_rest(traffic->rig->queue);
	return wrong;
}

bool traffic_good(struct traffic *traffic)
{
	return !traffic_check(traffic) && !traffic->failed && !traffic->wrong;
}

/* --- The log ---------------------------------------------------------------------------------------------------- */

static int log_fd = -1;

void log_keep(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	if (log_fd < 0)
		tap_bail("nowhere to keep the log");
	log_set_fd(log_fd);
}

void log_begin(void)
{
	if (ftruncate(log_fd, 0) < 0 || lseek(log_fd, 0, SEEK_SET) < 0)
		tap_bail("the log cannot be emptied");
}

char *log_text(void)
{
	static char text[1 << 16];
	ssize_t size = pread(log_fd, text, sizeof text - 1, 0);

	text[size > 0 ? size : 0] = '\0';
	return text;
}

unsigned log_count(const char *text)
{
	return text_times(log_text(), text);
}

bool log_wait(const char *text, unsigned count, uint64_t *ret_ns)
{
	bool good = wait_until(log_count(text) >= count);

	if (ret_ns)
		*ret_ns = clock_now();
	return good;
}

void log_show(void)
{
	char *save, *text = log_text();

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		printf("# %s\n", line);
	log_begin();
}
