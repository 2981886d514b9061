#include "blockdev/ublk/ublk_request.h"

#include <errno.h>

int ublk_request_read(const volatile struct ublk_descriptor *descriptor, uint32_t data_bytes,
		      struct disk_request *ret_request)
{
	enum disk_op op;

	switch (descriptor->operation_flags & 0xff) {
	case UBLK_READ:
		op = DISK_READ;
		break;
	case UBLK_WRITE:
		op = DISK_WRITE;
		break;
	case UBLK_FLUSH:
		op = DISK_FLUSH;
		break;
	case UBLK_DISCARD:
		op = DISK_DISCARD;
		break;
	case UBLK_WRITE_ZEROES:
		op = DISK_ZERO;
		break;
	default:
		return -EOPNOTSUPP;
	}
	uint64_t length = op == DISK_FLUSH ? 0 : (uint64_t)descriptor->sectors * DISK_SECTOR;
	if ((op == DISK_READ || op == DISK_WRITE) && length > data_bytes)
		return -EINVAL;
	ret_request->op = op;
	ret_request->offset = op == DISK_FLUSH ? 0 : descriptor->sector * DISK_SECTOR;
	ret_request->length = length;
	return 0;
}

int32_t ublk_request_result(const struct disk_request *request)
{
	if (request->status < 0)
		return request->status;
	return request->op == DISK_READ || request->op == DISK_WRITE ? (int32_t)request->length : 0;
}
