/*
 * ublk_control: sends commands about ublk devices to /dev/ublk-control.
 *
 * Theory of operation. The control submits a command to a small io_uring with 128-byte entries. It waits for the result
 * only up to a deadline, because some commands wait for other processes. For example, DELETE waits until all users have
 * closed the device. The memory of a command belongs to the control. After a timeout the kernel may still write to this
 * memory, so the control abandons it together with the ring.
 *
 * Kernels number the commands in one of two ways (ublk_abi.h). GET_FEATURES exists only in the newer way, so this first
 * command shows which way the kernel uses.
 *
 * Threads. Only one thread at a time may use a control. The functions do not log. They return 0, -ENODEV if there is no
 * such device, -EOPNOTSUPP if the kernel is too old for the command, or -EBUSY, -EEXIST, -EPERM or -ETIMEDOUT.
 */
#ifndef BLOCKDEV_UBLK_CONTROL_H
#define BLOCKDEV_UBLK_CONTROL_H

#include "blockdev/ublk/ublk_abi.h"

#include <stdbool.h>

#define UBLK_WHY_MAX 256

struct ublk_control;

/* Opens a control. After an error, @ret_why has one line with the next step. */
int ublk_control_open(struct ublk_control **ret_control, char ret_why[UBLK_WHY_MAX]);
void ublk_control_close(struct ublk_control *control);

/* Returns true if all commands must be numbered as before Linux 6.4, including those about tags. */
bool ublk_control_is_legacy(const struct ublk_control *control);
/* Returns the driver's features, such as UBLK_USER_RECOVERY, or 0 if the kernel does not say. */
uint64_t ublk_control_features(const struct ublk_control *control);

/* Creates /dev/ublkcN with the queues, depth, request_bytes and flags of @info. Sets all fields of @info to the
   driver's values. */
int ublk_control_add(struct ublk_control *control, struct ublk_info *info);
int ublk_control_set_parameters(struct ublk_control *control, uint32_t number,
				const struct ublk_parameters *parameters);
int ublk_control_get_parameters(struct ublk_control *control, uint32_t number, struct ublk_parameters *ret_parameters);
int ublk_control_info(struct ublk_control *control, uint32_t number, struct ublk_info *ret_info);
/* All tags must have been fetched. Creates /dev/ublkbN. The kernel then reads the first sectors, so the queues must be
   serving. */
int ublk_control_start(struct ublk_control *control, uint32_t number);
/* Removes /dev/ublkbN. New requests fail. The kernel waits for the requests that the server has, and then ends the
   commands of all tags. */
int ublk_control_stop(struct ublk_control *control, uint32_t number);
/* Removes /dev/ublkcN. Waits until all users have closed this file. */
int ublk_control_delete(struct ublk_control *control, uint32_t number);
/* Begins a recovery, after which /dev/ublkcN can be opened and tags can be fetched. Returns -EBUSY if the old server
   has not ended yet. */
int ublk_control_start_recovery(struct ublk_control *control, uint32_t number);
/* All tags must have been fetched. Ends a recovery. Requests then arrive, first the old requests that were not
   answered. */
int ublk_control_end_recovery(struct ublk_control *control, uint32_t number);

#endif
