/*
 * ublk_control: gives commands about ublk devices to /dev/ublk-control.
 *
 * Theory of operation. A small io_uring with 128-byte entries. Each command is submitted and waited for, with a
 * deadline. Some commands wait for other processes: DELETE waits until all users have closed the device. The driver
 * numbers commands in one of two ways (ublk_abi.h). GET_FEATURES exists only in the new way, so its answer shows which
 * way applies.
 *
 * A command that has not answered in time may still write to its memory. So the memory belongs to the control, which
 * abandons it together with its ring.
 *
 * Threads. One thread at a time. Nothing here logs. The functions return 0 or -errno:
 *
 *   -ENODEV       no such device
 *   -EOPNOTSUPP   the kernel is too old for the command
 *   -EBUSY, -EEXIST, -EPERM, -ETIMEDOUT
 */
#ifndef BLOCKDEV_UBLK_CONTROL_H
#define BLOCKDEV_UBLK_CONTROL_H

#include "blockdev/ublk/ublk_abi.h"

#include <stdbool.h>

#define UBLK_WHY_MAX 256

struct ublk_control;

/* Opens a control. On failure @ret_why gets one line with the next step. */
int ublk_control_open(struct ublk_control **ret_control, char ret_why[UBLK_WHY_MAX]);
/* Accepts NULL. */
void ublk_control_close(struct ublk_control *control);

/* Returns true if all commands, also those about tags, must be numbered as before Linux 6.4. */
bool ublk_control_is_legacy(const struct ublk_control *control);
/* Returns the driver's features, such as UBLK_USER_RECOVERY, or 0 if the kernel does not tell them. */
uint64_t ublk_control_features(const struct ublk_control *control);

/*
 * Creates /dev/ublkcN. Reads queues, depth, request_bytes and flags of @info, and sets all fields to the driver's
 * values.
 */
int ublk_control_add(struct ublk_control *control, struct ublk_info *info);
int ublk_control_set_parameters(struct ublk_control *control, uint32_t number,
				const struct ublk_parameters *parameters);
int ublk_control_get_parameters(struct ublk_control *control, uint32_t number, struct ublk_parameters *ret_parameters);
int ublk_control_info(struct ublk_control *control, uint32_t number, struct ublk_info *ret_info);
/* Creates /dev/ublkbN after all tags were fetched. Reads its first sectors, so the queues must be serving. */
int ublk_control_start(struct ublk_control *control, uint32_t number);
/* Removes /dev/ublkbN: fails new requests, waits for the requests that the server has, then ends the commands of all
   tags. */
int ublk_control_stop(struct ublk_control *control, uint32_t number);
/* Removes /dev/ublkcN once all users have closed it. */
int ublk_control_delete(struct ublk_control *control, uint32_t number);
/* Begins a recovery. Returns -EBUSY if the old server has not ended yet. Afterwards /dev/ublkcN can be opened, and tags
   can be fetched. */
int ublk_control_start_recovery(struct ublk_control *control, uint32_t number);
/* Call it when all tags were fetched. Requests then arrive, first those that were not answered. */
int ublk_control_end_recovery(struct ublk_control *control, uint32_t number);

#endif
