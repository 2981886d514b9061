/*
 * Requests of the rebuild thread to one donor. Each is carried out only in the epoch of the chunk that it names,
 * because later the slab may belong to another chunk.
 */
#include "client/far_store.h"
#include "client/io/far_queue.h"
#include "tests/func/client/rig.h"

#include <errno.h>

static struct rig rig;

/* Asks @donor for one page of chunk 0. Returns the status. */
static int ask(struct store_queue *queue, enum store_op op, void *data, unsigned donor, uint32_t epoch)
{
	const struct store_io io = {.op = op, .count = 1, .page = 0, .data = data, .buffer = rig.buffer};
	struct store_done done;

	far_queue_submit_to(queue, &io, donor, epoch);
	rig_wait(queue, &done, 1);
	return done.status;
}

int main(void)
{
	struct store_queue *queue;
	struct chunk_view view;
	uint8_t *other;
	unsigned donor;
	struct far *far;

	rig_donors(&rig, 1, "8M");
	rig_open(&rig);
	far = (struct far *)rig.store;
	other = rig.bytes + STORE_PAGE;
	ok(rig_put(&rig, 0, 1) == 0, "a page is written, so that its chunk has a slab");
	if (!ok(store_queue_open(rig.store, &queue) == 0 && chunk_view(&far->table, 0, &view),
		"a queue opens, and the chunk has a view"))
		return tap_done();
	far_queue_direct(queue);
	donor = view.slots[0].donor;
	ok(ask(queue, STORE_READ, other, donor, view.epoch) == 0 && rig_is(other, 0, 1),
	   "a direct read in the chunk's epoch returns the page");
	ok(ask(queue, STORE_READ, other, donor, view.epoch + 1) == -EIO,
	   "a direct read in another epoch fails with -EIO");
	rig_fill(other, 0, 2);
	ok(ask(queue, STORE_WRITE, other, donor, view.epoch + 1) == -ESTALE,
	   "a direct write in another epoch fails with -ESTALE");
	ok(rig_read(&rig, 0, 1, other) == 0 && rig_is(other, 0, 1),
	   "a page is unchanged after a direct write in another epoch");
	rig_fill(other, 0, 1);
	ok(ask(queue, STORE_WRITE, other, donor, view.epoch) == 0, "a direct write in the chunk's epoch succeeds");
	store_queue_close(queue);
	rig_close(&rig);
	return tap_done();
}
