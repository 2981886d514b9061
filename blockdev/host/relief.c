#include "blockdev/host/relief.h"

#include "common/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 256
#define LOOK_NS UINT64_C(2900000000)

unsigned relief_step(unsigned step, const struct relief_sight *sight)
{
	if (sight->answered || !sight->inflight)
		return 0;
	/* Twice the reserve counts as short, because the kernel raises its watermarks for a while after it has broken
	   up large blocks of memory. */
	if (sight->free_kib > sight->kept_kib * 2)
		return step;
	return step < RELIEF_MOST ? step + 1 : step;
}

static const char *text_read(int fd, char text[TEXT_MAX])
{
	ssize_t got = pread(fd, text, TEXT_MAX - 1, 0);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

static void sight_read(const struct relief *relief, struct relief_sight *sight)
{
	unsigned long long reads = 0, writes = 0, kib = UINT64_MAX / 2;
	char text[TEXT_MAX];
	const char *line;

	if (sscanf(text_read(relief->inflight, text), "%llu %llu", &reads, &writes) != 2)
		reads = writes = 0;
	line = strstr(text_read(relief->meminfo, text), "MemFree:");
	if (!line || sscanf(line, "MemFree: %llu", &kib) != 1)
		kib = UINT64_MAX / 2;
	sight->inflight = reads + writes;
	sight->free_kib = kib;
	sight->kept_kib = relief->record.set.at[WATERMARK_MIN];
}

void relief_open(struct relief *relief, const char *name, const char *path)
{
	const char *last = strrchr(path, '/');
	char file[128];

	*relief = (struct relief){.inflight = -1, .meminfo = -1};
	if (!last || watermarks_record_read(name, &relief->record) < 0 ||
	    relief->record.set.at[WATERMARK_MIN] == relief->record.found.at[WATERMARK_MIN])
		return;
	snprintf(file, sizeof file, "/sys/block/%s/inflight", last + 1);
	relief->inflight = open(file, O_RDONLY | O_CLOEXEC);
	relief->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	/* The previous worker may have lowered the reserve. */
	relief->step = watermarks_step(&relief->record, RELIEF_MOST);
}

void relief_tick(struct relief *relief, uint64_t now, uint64_t done)
{
	struct relief_sight sight = {.answered = done - relief->done};
	unsigned step;

	if (relief->inflight < 0 || now - relief->at < LOOK_NS)
		return;
	relief->at = now;
	relief->done = done;
	if (sight.answered && !relief->step)
		return;
	sight_read(relief, &sight);
	step = relief_step(relief->step, &sight);
	if (step == relief->step || !watermarks_lower(&relief->record, relief->step, step))
		return;
	if (!relief->step)
		log_warning(
		    "no request was answered for three seconds, and %llu KiB are free: vm.min_free_kbytes is lowered "
		    "until one is",
		    (unsigned long long)sight.free_kib);
	relief->step = step;
}
