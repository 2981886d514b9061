/*
 * ublk_request: the kernel's description of a request as the disk's, and the disk's answer as the kernel's.
 *
 * Threads: any; no state.
 */
#ifndef BLOCKDEV_UBLK_REQUEST_H
#define BLOCKDEV_UBLK_REQUEST_H

#include "blockdev/disk.h"
#include "blockdev/ublk_abi.h"

/* Fills in op, offset and length, and nothing else. -EOPNOTSUPP: the device never said that it could do this; -EINVAL:
   more data than @data_bytes, the room that its tag has. */
int ublk_request_read(const volatile struct ublk_descriptor *descriptor, uint32_t data_bytes,
		      struct disk_request *ret_request);
/* What COMMIT_AND_FETCH says of a request that is done. */
int32_t ublk_request_result(const struct disk_request *request);

#endif
