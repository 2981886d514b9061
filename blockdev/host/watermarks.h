/*
 * watermarks: sets how much memory the kernel holds in reserve, and how early it begins to swap, while the machine
 * may swap to our devices.
 *
 * Theory of operation. The kernel swaps pages out when memory has run out. But sending these pages to a donor needs
 * memory, too, for socket buffers and requests. Two kernel settings provide this memory:
 *
 * - vm.min_free_kbytes is a reserve that ordinary tasks may not use. Interrupts of the network and soft-RoCE may use
 *   most of it (mm/page_alloc.c, ALLOC_MIN_RESERVE, ALLOC_NON_BLOCK).
 * - vm.watermark_scale_factor, in 1/10000 of memory, says how far above the reserve kswapd begins to reclaim, and how
 *   much further up it stops. Programs can use this memory while the first pages are still being sent.
 *
 * watermarks_needed() computes and explains the values. The daemon raises settings with lower values before the device
 * exists, and restores them when the device is removed.
 *
 * A record, the file `watermarks` in the device's folder, has the values found and the values set. So any process
 * that removes the device can restore them, even after a crash. With several devices, all records have the same found
 * values: the values before the first device. When a device is removed, the settings get the highest values that the
 * other devices have set. If the present value is not the highest value set, somebody else has changed the setting, and
 * farpage leaves it alone.
 *
 * devices.h has the structs, and the functions that only read. FARPAGE_SYSCTL_VM names a folder in place of
 * /proc/sys/vm, for tests.
 *
 * Threads. One thread of a process at a time may call these functions. runtime_lock() excludes other processes.
 */
#ifndef BLOCKDEV_WATERMARKS_H
#define BLOCKDEV_WATERMARKS_H

#include "blockdev/daemon/runtime.h"

/* Raises the values that are lower than @needed, and writes the record. Returns 0 or -errno. After an error, the
   values are as before, and one line has been logged, unless runtime_lock() failed. */
int watermarks_raise(const struct runtime *runtime, const struct watermarks *needed);
/* Restores the values as the record says, and removes the record. Does nothing if there is no record. Logs
   errors. */
void watermarks_restore(const struct runtime *runtime);
/* Moves vm.min_free_kbytes from step @before to step @step (relief.h). Step 0 is the value set by @record, and step
   WATERMARKS_STEPS the value found. Returns false if vm.min_free_kbytes is not at step @before now, or cannot be
   read or written. */
#define WATERMARKS_STEPS 16u
bool watermarks_lower(const struct watermarks_record *record, unsigned before, unsigned step);
/* Returns the step at which vm.min_free_kbytes is now, 0 .. @most, or 0 if it is at no step. */
unsigned watermarks_step(const struct watermarks_record *record, unsigned most);

/* --- Parts, for tests ------------------------------------------------------------------------------------ */

/* Returns the record of a new device. @now is the kernel's present values; @others are the records of other
   devices. */
struct watermarks_record watermarks_plan(const struct watermarks *now, const struct watermarks *needed,
					 const struct watermarks_record *others, unsigned count);
/* Computes the new value when the device of @own is removed and those of @others stay. Returns false if somebody
   else has changed the value. */
bool watermarks_undo(enum watermark which, const struct watermarks_record *own, uint64_t now,
		     const struct watermarks_record *others, unsigned count, uint64_t *ret_value);
/* Writes a record as text. Returns the length. */
size_t watermarks_format(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);
/* Reads the text of watermarks_format(). Returns 0, or -EINVAL if it is not a record. */
int watermarks_parse(const char *text, struct watermarks_record *ret_record);

#endif
