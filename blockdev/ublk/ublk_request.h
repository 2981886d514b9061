/*
 * ublk_request: converts the kernel's description of a request to the disk's, and the disk's result to the kernel's.
 *
 * Threads. Any thread may call these functions. They have no state.
 */
#ifndef BLOCKDEV_UBLK_REQUEST_H
#define BLOCKDEV_UBLK_REQUEST_H

#include "blockdev/disk.h"
#include "blockdev/ublk/ublk_abi.h"

/* Sets op, offset and length. @data_bytes is the size of the tag's data memory. Returns 0, -EOPNOTSUPP for an
   operation that the device does not offer, or -EINVAL if the request has more data than @data_bytes. */
int ublk_request_read(const volatile struct ublk_descriptor *descriptor, uint32_t data_bytes,
		      struct disk_request *ret_request);
/* Returns the result of a finished request, for COMMIT_AND_FETCH. */
int32_t ublk_request_result(const struct disk_request *request);

#endif
