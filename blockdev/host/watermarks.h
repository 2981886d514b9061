/*
 * watermarks: sets how much memory the kernel keeps free, and how early it begins to swap, while the machine may swap
 * to our devices.
 *
 * Theory of operation. Pages leave for the device just when memory has run out. Sending them needs memory, too, for
 * socket buffers and requests. Two kernel settings keep memory for this:
 *
 * - vm.min_free_kbytes is a reserve that a task that can wait may not use. The network's interrupts and soft-RoCE's
 *   work may use the greater part of this reserve (mm/page_alloc.c, ALLOC_MIN_RESERVE, ALLOC_NON_BLOCK).
 * - vm.watermark_scale_factor, in 1/10000 of memory, says how far above the reserve kswapd wakes and how far above it
 *   kswapd stops. Programs can take that memory while the first pages are still on their way.
 *
 * Both values are raised before there is a device, never lowered, and restored when the device goes.
 * watermarks_needed() computes the values and explains them.
 *
 * The file `watermarks` in the device's folder records the values found and the values set. So the process that removes
 * the device can restore them, even after a crash. Each device has a record. All records have the same found values:
 * those before the first device. When a device goes, the values become the highest that other devices have set. A value
 * that differs from the highest one set was changed by somebody else, and is left alone.
 *
 * devices.h has the structs, and the functions that only read.
 *
 * FARPAGE_SYSCTL_VM names a folder in place of /proc/sys/vm, for tests.
 *
 * Threads. One thread of a process at a time. Between processes, runtime_lock() protects the values.
 */
#ifndef BLOCKDEV_WATERMARKS_H
#define BLOCKDEV_WATERMARKS_H

#include "blockdev/daemon/runtime.h"

/*
 * Raises the values that are lower than @needed, and writes a record to the folder. Returns 0 or -errno. After an
 * error, the values are as before and, unless runtime_lock() failed, one line has been logged.
 */
int watermarks_raise(const struct runtime *runtime, const struct watermarks *needed);
/* Restores the values by the folder's record and removes the record. Does nothing without one. Logs failures. */
void watermarks_restore(const struct runtime *runtime);
/*
 * Moves vm.min_free_kbytes from step @before to @step. Step 0 is the value that @record has set, and step
 * WATERMARKS_STEPS the value it has found (relief.h). Returns false if somebody else has changed the value or it cannot
 * be written.
 */
#define WATERMARKS_STEPS 16u
bool watermarks_lower(const struct watermarks_record *record, unsigned before, unsigned step);
/* Returns the value's present step, 0 .. @most. Also returns 0 if the value is at no step. */
unsigned watermarks_step(const struct watermarks_record *record, unsigned most);

/* --- Parts, for tests ------------------------------------------------------------------------------------ */

/* Returns a new device's record, for the kernel's values @now and the records of the other devices. */
struct watermarks_record watermarks_plan(const struct watermarks *now, const struct watermarks *needed,
					 const struct watermarks_record *others, unsigned count);
/*
 * Computes the value to set when the device of @own goes and the devices of @others stay. Returns false if somebody
 * else has changed the value.
 */
bool watermarks_undo(enum watermark which, const struct watermarks_record *own, uint64_t now,
		     const struct watermarks_record *others, unsigned count, uint64_t *ret_value);
/* Writes a record as the file has it. Returns the length. */
size_t watermarks_format(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);
/* Reads what watermarks_format() wrote. Returns 0, or -EINVAL if the text is no record. */
int watermarks_parse(const char *text, struct watermarks_record *ret_record);

#endif
