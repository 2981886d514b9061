/*
 * ublk_control: commands about ublk devices, given to /dev/ublk-control.
 *
 * Theory of operation. A small io_uring of 128-byte entries; each command is submitted and waited for, with a deadline,
 * for some wait for others (DELETE until everyone has closed the device). The driver has one of two ways to number the
 * commands (ublk_abi.h): whether it answers GET_FEATURES, which exists in the new way only, tells which. A command that
 * did not answer in time may still write to the memory that it was given, so that memory is the control's own and is
 * given up then, with its ring.
 *
 * Threads: one at a time. Nothing is logged; -errno tells: -ENODEV no such device, -EBUSY, -EEXIST, -EPERM,
 * -ETIMEDOUT, -EOPNOTSUPP the kernel is too old for the command.
 */
#ifndef BLOCKDEV_UBLK_CONTROL_H
#define BLOCKDEV_UBLK_CONTROL_H

#include "blockdev/ublk_abi.h"

#include <stdbool.h>

#define UBLK_WHY_MAX 256

struct ublk_control;

/* On failure @ret_why has one line with the next step. */
int ublk_control_open(struct ublk_control **ret_control, char ret_why[UBLK_WHY_MAX]);
/* Takes NULL. */
void ublk_control_close(struct ublk_control *control);

/* Commands must be numbered as before Linux 6.4, those about tags too. */
bool ublk_control_is_legacy(const struct ublk_control *control);
/* UBLK_USER_RECOVERY and others; 0 where the kernel does not tell. */
uint64_t ublk_control_features(const struct ublk_control *control);

/* Makes /dev/ublkcN. In: queues, depth, request_bytes, flags; out: all, as the driver has it. */
int ublk_control_add(struct ublk_control *control, struct ublk_info *info);
int ublk_control_set_parameters(struct ublk_control *control, uint32_t number,
				const struct ublk_parameters *parameters);
int ublk_control_get_parameters(struct ublk_control *control, uint32_t number, struct ublk_parameters *ret_parameters);
int ublk_control_info(struct ublk_control *control, uint32_t number, struct ublk_info *ret_info);
/* Makes /dev/ublkbN, after all tags were fetched; reads its first sectors, so the queues must serve. */
int ublk_control_start(struct ublk_control *control, uint32_t number);
/* Unmakes /dev/ublkbN: fails what comes, waits for what the server has, then ends the commands of all tags. */
int ublk_control_stop(struct ublk_control *control, uint32_t number);
/* Unmakes /dev/ublkcN, once everyone has closed it. */
int ublk_control_delete(struct ublk_control *control, uint32_t number);
/* -EBUSY: the old server has not ended yet. Then /dev/ublkcN can be opened and tags be fetched. */
int ublk_control_start_recovery(struct ublk_control *control, uint32_t number);
/* All tags were fetched; requests come, those first that were not answered. */
int ublk_control_end_recovery(struct ublk_control *control, uint32_t number);

#endif
