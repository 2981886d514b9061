#include "pager/writer.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_COOKIE (UINT64_C(1) << 63) /* the other bits of a read's cookie are its index in writer_read() */
#define RUN_MAX 16u                     /* most pages per write */
#define RETRY_NS 50000000ull            /* pause before a failed write is repeated */
#define FULL_MS 5000u                   /* how long writes to full donors are repeated, if no donor clears slabs */
#define LATE_NS 500000000ull            /* if donors are full: the most time that counts between two failures */

/* --- Failed writes ---------------------------------------------------------------------------------------------- */

/* Stops the program, because its memory can be neither stored nor kept, and must not be lost unnoticed. */
static void stop_program(const char *why)
{
	log_error("pages cannot be sent out: %s: stopping process %d; add a donor or give more --local", why, getpid());
	kill(getpid(), SIGBUS);
	sleep(1); /* the program may handle SIGBUS, but must not continue */
	kill(getpid(), SIGKILL);
}

/* Adds the time since the last failure. Full donors answer at once. So a long time between two refusals means that this
   thread had no processor, and counts as LATE_NS. */
static void count_failing(struct writer *writer, bool full, bool clears, uint64_t now)
{
	uint64_t passed = writer->failed_at ? now - writer->failed_at : 0;

	if (full && passed > LATE_NS)
		passed = LATE_NS;
	writer->failed_at = now;
	writer->failing_ns += passed;
	writer->full_ns = full && !clears ? writer->full_ns + passed : 0;
}

/* Full donors get less time than donors out of reach, because waiting rarely helps. It helps if a donor clears slabs.
   The clearing of tens of GiB after the end of another client takes longer than FULL_MS. */
static void consider_stopping(struct writer *writer, int status)
{
	struct store_stats stats;
	bool full = status == -ENOSPC;

	store_stats(writer->core->store, &stats);
	count_failing(writer, full, stats.donors_clear, clock_now());
	if (stats.donors_lost)
		stop_program("no donor is left");
	else if (writer->full_ns > FULL_MS * 1000000ull || writer->failing_ns > writer->core->timeout_ms * 1000000ull)
		stop_program(full ? "the donors are full" : "the donors do not take them");
}

/* --- Submitting ------------------------------------------------------------------------------------------------- */

static struct store_io write_of(const struct core *core, uint32_t frame, uint32_t count)
{
	return (struct store_io){
	    .op = STORE_WRITE,
	    .count = count,
	    .page = core->victims.page_of[frame],
	    .data = victims_frame(&core->victims, frame),
	    .buffer = core->buffer,
	    .cookie = (uint64_t)count << 32 | frame,
	};
}

static void submit(struct writer *writer, const struct store_io *ios, unsigned count)
{
	while (count) {
		int taken = store_submit(writer->queue, ios, count);

		if (taken < 1) {
			writer_poll(writer, true);
			continue;
		}
		ios += taken;
		count -= (unsigned)taken;
	}
}

static void stage_run(struct writer *writer)
{
	if (writer->run_count)
		writer->staged[writer->staged_count++] = write_of(writer->core, writer->run_frame, writer->run_count);
	writer->run_count = 0;
}

static bool run_continues(const struct writer *writer, uint32_t frame)
{
	const uint32_t *page_of = writer->core->victims.page_of;

	return writer->run_count < RUN_MAX && frame == writer->run_frame + writer->run_count &&
	       page_of[frame] == page_of[frame - 1] + 1;
}

void writer_stage(struct writer *writer, uint32_t frame)
{
	struct victims *victims = &writer->core->victims;

	pages_mark(&writer->core->pages, victims->page_of[frame], PAGE_WRITING);
	victims->writing[frame] = 1;
	victims->in_flight++;
	if (writer->run_count && !run_continues(writer, frame))
		stage_run(writer);
	if (writer->run_count == 0)
		writer->run_frame = frame;
	writer->run_count++;
}

void writer_flush(struct writer *writer)
{
	stage_run(writer);
	submit(writer, writer->staged, writer->staged_count);
	writer->staged_count = 0;
}

uint32_t writer_frame(struct writer *writer)
{
	struct victims *victims = &writer->core->victims;
	uint32_t frame;

	while ((frame = victims_allocate(victims)) == VICTIMS_NONE) {
		writer_flush(writer);
		writer_poll(writer, true);
	}
	return frame;
}

/* --- Completing ------------------------------------------------------------------------------------------------- */

static void frames_written(struct writer *writer, uint32_t frame, uint32_t count)
{
	struct core *core = writer->core;
	struct victims *victims = &core->victims;

	for (uint32_t i = frame; i < frame + count; i++) {
		uint32_t page = victims->page_of[i];

		victims->writing[i] = 0;
		if (shadows_has(&core->shadows, page))
			shadows_written(&core->shadows, page);
		else
			pages_unmark(&core->pages, page, PAGE_WRITING);
	}
	victims->in_flight -= count;
	core_settled(core);
}

/* Returns true if the failed write of @frame must be repeated. This is the case if the frame has the only copy, or if a
   forked child may still read the contents from the donors. */
static bool frame_is_wanted(const struct core *core, uint32_t frame)
{
	uint32_t word = pages_load(&core->pages, core->victims.page_of[frame]);
	enum page_state state = page_state(word);
	bool is_away = state == PAGE_BUFFERED || state == PAGE_RETURNING; /* the copy to the program may still fail */

	return (is_away && page_frame(word) == frame) || word & PAGE_SNAPSHOT;
}

static void write_failed(struct writer *writer, uint32_t frame, uint32_t count, int status)
{
	consider_stopping(writer, status);
	for (uint32_t i = frame; i < frame + count; i++) {
		if (frame_is_wanted(writer->core, i)) {
			struct store_io io = write_of(writer->core, i, 1);

			submit(writer, &io, 1);
		} else {
			frames_written(writer, i, 1);
		}
	}
}

void writer_sleep(struct writer *writer, int timeout_ms)
{
	struct epoll_event events[2];

	if (store_arm(writer->queue) == 0)
		epoll_wait(writer->epoll, events, 2, timeout_ms);
}

void writer_poll(struct writer *writer, bool wait)
{
	struct store_done dones[32];
	int count = store_poll(writer->queue, dones, 32);

	if (count == 0 && wait) {
		writer_sleep(writer, 100);
		count = store_poll(writer->queue, dones, 32);
	}
	bool paused = false;
	for (int i = 0; i < count; i++) {
		uint32_t frame = (uint32_t)dones[i].cookie, length = (uint32_t)(dones[i].cookie >> 32);

		if (dones[i].cookie & READ_COOKIE) {
			writer->reading--;
			writer->read_status[frame] = dones[i].status;
		} else if (dones[i].status == 0) {
			writer->failed_at = writer->failing_ns = writer->full_ns = 0;
			frames_written(writer, frame, length);
		} else {
			/* All failed writes share one pause. A pause for each would delay the later writes, which may
			   succeed. */
			if (!paused)
				usleep(RETRY_NS / 1000);
			paused = true;
			write_failed(writer, frame, length, dones[i].status);
		}
	}
}

void writer_drain(struct writer *writer)
{
	while (writer->core->victims.in_flight)
		writer_poll(writer, true);
}

void writer_read(struct writer *writer, const uint64_t *pages, const uint32_t *frames, int *ret_status, unsigned count)
{
	struct store_io ios[WRITER_READS];

	for (unsigned i = 0; i < count; i++)
		ios[i] = (struct store_io){.op = STORE_READ,
					   .count = 1,
					   .page = pages[i],
					   .data = victims_frame(&writer->core->victims, frames[i]),
					   .buffer = writer->core->buffer,
					   .cookie = READ_COOKIE | i};
	writer->reading = count;
	writer->read_status = ret_status;
	submit(writer, ios, count);
	while (writer->reading)
		writer_poll(writer, true);
}

/* --- Opening and closing ---------------------------------------------------------------------------------------- */

static int watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int writer_open(struct writer *writer, struct core *core)
{
	*writer = (struct writer){.core = core, .epoll = epoll_create1(EPOLL_CLOEXEC)};
	return writer->epoll < 0 ? -errno : watch(writer->epoll, core->evictor_kick.fd);
}

int writer_start(struct writer *writer)
{
	int result = store_queue_open(writer->core->store, &writer->queue);

	return result ? result : watch(writer->epoll, store_queue_fd(writer->queue));
}

void writer_close(struct writer *writer)
{
	store_queue_close(writer->queue);
	if (writer->epoll >= 0)
		close(writer->epoll);
}
