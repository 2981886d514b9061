/*
 * Fuzzes the disk with valid and invalid requests of all kinds, several at a time. The disk answers each request once,
 * with -EINVAL only for invalid requests. Reads return the bytes that were written. The disk never breaks the contract
 * of the store.
 *
 * Input: a byte for the delay of the store's answers, then requests of six bytes:
 *     1 byte   the operation, and STEP_ flags
 *     2 bytes  the offset in sectors
 *     2 bytes  the length in sectors
 *     1 byte   the byte to write
 * While a request changes sectors, no other request for these sectors is in progress. So the contents of the
 * disk are known at any time.
 */
#include "tests/unit/blockdev/disk_over.h"

#include <errno.h>

#define PAGES 20u
#define BYTES ((uint64_t)PAGES * STORE_PAGE)
#define DEPTH 8u
#define STEP 6u
#define STEP_POLL 0x08u /* poll once after the request */
#define STEP_ODD 0x10u  /* the offset is not a multiple of a sector */
#define STEP_HUGE 0x20u /* the length is near UINT64_MAX */

struct slot {
	struct disk_request request;
	bool busy;
	int status;
	uint8_t *data, expected[BYTES];
};

static struct slot slots[DEPTH];
static _Alignas(STORE_PAGE) uint8_t memory[DEPTH][BYTES];
static struct disk_over over;
static struct disk_queue *queue;
static struct store_buffer *key;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

static bool changes(const struct disk_request *request)
{
	return request->op == DISK_WRITE || request->op == DISK_DISCARD || request->op == DISK_ZERO;
}

static bool meet(const struct disk_request *one, const struct disk_request *other)
{
	return one->offset < other->offset + other->length && other->offset < one->offset + one->length;
}

static void poll_once(void)
{
	struct disk_request *done[DEPTH];
	unsigned count = disk_poll(queue, done, DEPTH);

	for (unsigned i = 0; i < count; i++) {
		struct slot *slot = (struct slot *)done[i];

		must(slot->busy && done[i]->status == slot->status);
		slot->busy = false;
		if (done[i]->op == DISK_READ && !done[i]->status)
			must(!memcmp(slot->data, slot->expected, done[i]->length));
	}
}

static struct slot *slot_idle(const struct disk_request *request, int status)
{
	struct slot *idle;

	for (;;) {
		bool wait = false;

		idle = NULL;
		for (unsigned i = 0; i < DEPTH; i++) {
			if (!slots[i].busy)
				idle = &slots[i];
			else if (!status && !slots[i].status && meet(request, &slots[i].request))
				wait |= changes(request) || changes(&slots[i].request);
		}
		if (idle && !wait)
			return idle;
		poll_once();
	}
}

static bool is_right(const struct disk_request *request)
{
	return request->op == DISK_FLUSH || (request->op < DISK_FLUSH && request->length &&
					     request->offset % DISK_SECTOR == 0 && request->length % DISK_SECTOR == 0 &&
					     request->offset < BYTES && request->length <= BYTES - request->offset);
}

static void step(const uint8_t bytes[STEP])
{
	struct disk_request request = {.op = bytes[0] % 8 > DISK_OPS ? DISK_READ : (enum disk_op)(bytes[0] % 8)};
	struct slot *slot;
	int status;

	request.offset = (uint64_t)((bytes[1] | bytes[2] << 8) % (PAGES * 8 + 9)) * DISK_SECTOR;
	request.length = (uint64_t)((bytes[3] | bytes[4] << 8) % (PAGES * 8 + 9)) * DISK_SECTOR;
	request.offset += bytes[0] & STEP_ODD ? bytes[5] : 0;
	request.length = bytes[0] & STEP_HUGE ? UINT64_MAX - 511 - request.length : request.length;
	status = is_right(&request) ? 0 : -EINVAL;
	if (request.op == DISK_FLUSH)
		request.offset = request.length = 0;
	slot = slot_idle(&request, status);
	slot->request = request;
	slot->request.data = slot->data = memory[slot - slots];
	slot->request.buffer = key;
	slot->busy = true;
	slot->status = status;
	if (!status && request.op == DISK_READ)
		memcpy(slot->expected, over.reference + request.offset, request.length);
	if (!status && request.op == DISK_WRITE)
		memset(slot->data, bytes[5], request.length);
	if (!status)
		disk_over_apply(&over, request.op, request.offset, request.length, slot->data);
	disk_submit(queue, &slot->request);
	if (bytes[0] & STEP_POLL)
		poll_once();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_faults faults = {.seed = 1};

	if (!size)
		return 0;
	faults.delay = (uint16_t)(data[0] << 8);
	faults.delay_polls = data[0] % 5;
	must(disk_over_open(&over, BYTES, &faults, 1 + data[0] % 7) == 0);
	must(store_register(over.store, memory, sizeof memory, &key) == 0);
	must(disk_queue_open(over.disk, DEPTH, &queue) == 0);
	for (size_t at = 1; at + STEP <= size; at += STEP)
		step(data + at);
	while (disk_queue_busy(queue))
		poll_once();
	must(disk_over_do(queue, DISK_READ, 0, BYTES, memory, key) == 0);
	must(!memcmp(memory, over.reference, BYTES));
	must(strict_breaches(over.store) == 0 && disk_locks_are_free(over.disk) && disk_arm(queue) == 0);
	disk_queue_close(queue);
	store_deregister(over.store, key);
	disk_over_close(&over);
	return 0;
}
