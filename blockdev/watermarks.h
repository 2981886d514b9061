/*
 * watermarks: how much memory the kernel keeps free while the machine may swap to a device of ours, and how early it
 * begins to swap.
 *
 * Theory of operation. Pages leave for the device just when memory has run out, and most ways there take memory of
 * their own: socket buffers, requests. vm.min_free_kbytes is what nobody gets who can wait; the network's interrupts
 * and the work of soft-RoCE may take the greater part of it (mm/page_alloc.c, ALLOC_MIN_RESERVE, ALLOC_NON_BLOCK).
 * vm.watermark_scale_factor is how far above it kswapd wakes up and goes on to, in 1/10000 of the memory: what programs
 * can take while the first pages are still on their way. Both are raised, never lowered, before the device is there,
 * and put back when it goes: watermarks_needed() says to what, and why that.
 *
 * What was found and what was set lies in the device's folder (`watermarks`), so that whoever removes a device puts it
 * back, after a crash as well. With several devices each has a record; all have found the same, namely what was there
 * before the first of them, and the one that goes leaves the most that the others have set. Values that are not the
 * most that devices have set were changed by somebody since: they are left alone.
 *
 * FARPAGE_SYSCTL_VM names a folder in place of /proc/sys/vm (for tests).
 *
 * Threads: any one at a time in a process; between processes the lock of the folders (runtime_lock()).
 */
#ifndef BLOCKDEV_WATERMARKS_H
#define BLOCKDEV_WATERMARKS_H

#include "blockdev/runtime.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watermark {
	WATERMARK_MIN,   /* vm.min_free_kbytes */
	WATERMARK_SCALE, /* vm.watermark_scale_factor */
	WATERMARKS
};
const char *watermark_name(enum watermark which); /* "vm.min_free_kbytes" */

struct watermarks {
	uint64_t at[WATERMARKS];
};

/* Of one device. */
struct watermarks_record {
	struct watermarks found, set; /* before the first of all devices, and by this one */
};

#define WATERMARKS_TEXT_MAX 192 /* of a record, and of a line about one */

/* What a machine with that much memory needs for a device that may have @flight_kib under way. */
struct watermarks watermarks_needed(uint64_t memory_kib, uint64_t flight_kib);

/* As the kernel has them; -errno: one cannot be read. */
int watermarks_read(struct watermarks *ret_now);
/* Raises what is lower than @needed, and keeps a record in the folder. -errno after one logged line: all is as it
   was. */
int watermarks_raise(const struct runtime *runtime, const struct watermarks *needed);
/* Puts back what the folder's record says, and removes it. No record: nothing to do. What goes wrong is logged. */
void watermarks_restore(const struct runtime *runtime);
/* vm.min_free_kbytes goes from step @before to @step of WATERMARKS_STEPS on its way from what @record has set (0) to
   what it has found. False: somebody else has changed it, or it cannot be written. (relief.h) */
#define WATERMARKS_STEPS 16u
bool watermarks_lower(const struct watermarks_record *record, unsigned before, unsigned step);
/* The step it is at, 0 .. @most; 0 as well when it is at none of them. */
unsigned watermarks_step(const struct watermarks_record *record, unsigned most);
/* Any process: the record of a device; -ENOENT: it has none. */
int watermarks_record_read(const char *name, struct watermarks_record *ret_record);
/* "vm.min_free_kbytes 2727 -> 35519, ...", of what was changed; false, and empty: nothing was. */
bool watermarks_changes(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);

/* --- The parts of it, for tests --- */

/* What a device's record is to be, when the kernel has @now and other devices have @others. */
struct watermarks_record watermarks_plan(const struct watermarks *now, const struct watermarks *needed,
					 const struct watermarks_record *others, unsigned count);
/* What @ret_values is to be when the device of @own goes and those of @others stay. False: somebody else has changed
   this one since. */
bool watermarks_undo(enum watermark which, const struct watermarks_record *own, uint64_t now,
		     const struct watermarks_record *others, unsigned count, uint64_t *ret_value);
/* A record as the file has it; its length, and back. -EINVAL: it is none. */
size_t watermarks_format(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);
int watermarks_parse(const char *text, struct watermarks_record *ret_record);

#endif
