/* mailbox: see mailbox.h. */
#include "client/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A repair in one word: page << 20 | donor << 10 | count << 1 | 1. */
#define REPAIR_PAGE_SHIFT 20
#define REPAIR_DONOR_SHIFT 10
#define REPAIR_COUNT_SHIFT 1
#define REPAIR_COUNT_MASK 0x1ffu
#define REPAIR_DONOR_MASK 0x3ffu

_Static_assert(FAR_DONORS_MAX <= REPAIR_DONOR_MASK + 1, "a donor's field");

int mailbox_open(struct mailbox *mailbox)
{
	mailbox->control_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mailbox->control_wake < 0)
		return -errno;
	mailbox->rebuild_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mailbox->rebuild_wake < 0) {
		int error = -errno;

		close(mailbox->control_wake);
		return error;
	}
	return 0;
}

void mailbox_close(struct mailbox *mailbox)
{
	close(mailbox->control_wake);
	close(mailbox->rebuild_wake);
}

/* --- Waking ------------------------------------------------------------------------------------------------------- */

void mailbox_wake_control(struct mailbox *mailbox)
{
	if (!atomic_exchange(&mailbox->control_woken, true))
		eventfd_write(mailbox->control_wake, 1);
}

void mailbox_control_is_awake(struct mailbox *mailbox)
{
	eventfd_t value;

	eventfd_read(mailbox->control_wake, &value);
	atomic_store(&mailbox->control_woken, false);
}

void mailbox_wake_rebuild(struct mailbox *mailbox)
{
	eventfd_write(mailbox->rebuild_wake, 1);
}

void mailbox_rebuild_is_awake(struct mailbox *mailbox)
{
	eventfd_t value;

	eventfd_read(mailbox->rebuild_wake, &value);
}

/* --- Donors: breaks and waits ---------------------------------------------------------------------------------- */

void mailbox_put_break(struct mailbox *mailbox, unsigned donor, uint32_t round, int status)
{
	/* The round is in the high bits, so the newest round has the greatest mark. */
	uint64_t mark = (uint64_t)round << 32 | (uint16_t)-status;
	uint64_t before = atomic_load(&mailbox->donors[donor].broke);

	assert(status < 0);
	while (before < mark)
		if (atomic_compare_exchange_weak(&mailbox->donors[donor].broke, &before, mark))
			break;
	atomic_store(&mailbox->broke, true); /* after the mark, because the reader takes it first */
	mailbox_wake_control(mailbox);
}

bool mailbox_has_breaks(struct mailbox *mailbox)
{
	/* Not relaxed: this load must not come before mailbox_control_is_awake(), or the break of a queue that found
	   the control thread awake would wait for another wake-up. */
	return atomic_load(&mailbox->broke) && atomic_exchange(&mailbox->broke, false);
}

int mailbox_take_break(struct mailbox *mailbox, unsigned donor, uint32_t round)
{
	uint64_t mark = atomic_exchange(&mailbox->donors[donor].broke, 0);

	return mark && (uint32_t)(mark >> 32) == round ? -(int)(uint16_t)mark : 0;
}

void mailbox_put_wait(struct mailbox *mailbox, unsigned donor, uint64_t since)
{
	uint64_t before = atomic_load(&mailbox->donors[donor].waits);

	while (!before || since < before) {
		if (!atomic_compare_exchange_weak(&mailbox->donors[donor].waits, &before, since))
			continue;
		mailbox_wake_control(mailbox);
		return;
	}
}

uint64_t mailbox_oldest_wait(const struct mailbox *mailbox, unsigned donor)
{
	return atomic_load(&mailbox->donors[donor].waits);
}

void mailbox_forget_waits(struct mailbox *mailbox, unsigned donor)
{
	atomic_store(&mailbox->donors[donor].waits, 0);
}

/* --- Repairs ---------------------------------------------------------------------------------------------------- */

void mailbox_put_repair(struct mailbox *mailbox, uint64_t page, uint32_t count, const struct few_donors *donors)
{
	assert(count <= REPAIR_COUNT_MASK);
	for (unsigned donor = 0; donor < donors->count; donor++) {
		uint64_t word = page << REPAIR_PAGE_SHIFT | (uint64_t)donors->donors[donor] << REPAIR_DONOR_SHIFT |
				(uint64_t)count << REPAIR_COUNT_SHIFT | 1;

		for (unsigned i = 0; i < MAILBOX_REPAIRS; i++) {
			uint64_t none = 0;

			if (atomic_compare_exchange_strong(&mailbox->repairs[i], &none, word))
				break;
		}
	}
	mailbox_wake_rebuild(mailbox);
}

bool mailbox_take_repair(struct mailbox *mailbox, struct mailbox_repair *ret_repair)
{
	for (unsigned i = 0; i < MAILBOX_REPAIRS; i++) {
		uint64_t word = atomic_exchange(&mailbox->repairs[i], 0);

		if (!word)
			continue;
		*ret_repair = (struct mailbox_repair){.page = word >> REPAIR_PAGE_SHIFT,
						      .count = word >> REPAIR_COUNT_SHIFT & REPAIR_COUNT_MASK,
						      .donor = word >> REPAIR_DONOR_SHIFT & REPAIR_DONOR_MASK};
		return true;
	}
	return false;
}
