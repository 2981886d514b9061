/* Unit tests of client/mailbox: marks are kept, merged and taken once. */
#include "client/mailbox.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <poll.h>

static struct mailbox mailbox;

static bool is_readable(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	return poll(&polled, 1, 0) == 1;
}

static void the_newest_break_wins(void)
{
	mailbox_put_break(&mailbox, 3, 5, -ECONNRESET);
	mailbox_put_break(&mailbox, 3, 7, -ETIMEDOUT);
	mailbox_put_break(&mailbox, 3, 5, -EPIPE);
	ok(mailbox_take_break(&mailbox, 2, 7) == 0, "a break of one donor is not taken for another");
	ok(mailbox_take_break(&mailbox, 3, 7) == -ETIMEDOUT, "the break of the newest round is taken");
	ok(mailbox_take_break(&mailbox, 3, 7) == 0, "a break is taken once");
	mailbox_put_break(&mailbox, 3, 7, -EPIPE);
	ok(mailbox_take_break(&mailbox, 3, 9) == 0, "a break of an earlier round is not reported");
	ok(mailbox_take_break(&mailbox, 3, 7) == 0, "a break of an earlier round is dropped at the first look");
}

static void a_break_is_noticed_once(void)
{
	mailbox_has_breaks(&mailbox);
	ok(!mailbox_has_breaks(&mailbox), "no break is noticed before one is put");
	mailbox_put_break(&mailbox, FAR_DONORS_MAX - 1, 1, -EPIPE);
	ok(mailbox_has_breaks(&mailbox), "a break of the last donor is noticed");
	ok(!mailbox_has_breaks(&mailbox), "a break is noticed once");
	ok(mailbox_take_break(&mailbox, FAR_DONORS_MAX - 1, 1) == -EPIPE, "a noticed break can still be taken");
}

static void the_oldest_wait_is_kept(void)
{
	mailbox_put_wait(&mailbox, 1, 200);
	mailbox_put_wait(&mailbox, 1, 100);
	mailbox_put_wait(&mailbox, 1, 300);
	ok(mailbox_oldest_wait(&mailbox, 1) == 100, "the oldest wait is kept");
	ok(mailbox_oldest_wait(&mailbox, 1) == 100, "reading a wait does not take it");
	mailbox_forget_waits(&mailbox, 1);
	ok(mailbox_oldest_wait(&mailbox, 1) == 0, "waits are forgotten when a round ends");
}

static void a_wake_up_is_written_once_until_the_thread_is_awake(void)
{
	mailbox_control_is_awake(&mailbox);
	ok(!is_readable(mailbox.control_wake), "control_wake is not readable before the first wake-up");
	mailbox_wake_control(&mailbox);
	mailbox_wake_control(&mailbox);
	ok(is_readable(mailbox.control_wake), "control_wake is readable after a wake-up");
	mailbox_control_is_awake(&mailbox);
	ok(!is_readable(mailbox.control_wake), "control_wake is not readable once the control thread is awake");
	mailbox_wake_control(&mailbox);
	ok(is_readable(mailbox.control_wake), "control_wake is readable again after the next wake-up");
}

static void each_suspect_donor_gets_a_repair(void)
{
	struct mailbox_repair first, second, third;
	const struct few_donors donors = {.count = 2, .donors = {0, FAR_DONORS_MAX - 1}};
	const uint64_t page = (UINT64_C(1) << 40) + 5;

	mailbox_rebuild_is_awake(&mailbox);
	ok(!mailbox_take_repair(&mailbox, &first), "a new mailbox has no repair");
	mailbox_put_repair(&mailbox, page, 16, &donors);
	ok(is_readable(mailbox.rebuild_wake), "a repair wakes the rebuild thread");
	ok(mailbox_take_repair(&mailbox, &first) && mailbox_take_repair(&mailbox, &second),
	   "two suspect donors make two repairs");
	ok(first.page == page && first.count == 16 && second.page == page && second.count == 16,
	   "a repair names its pages");
	ok(first.donor == 0 && second.donor == FAR_DONORS_MAX - 1,
	   "a repair names its donor, from the first to the last");
	ok(!mailbox_take_repair(&mailbox, &third), "a repair is taken once");
}

static void repairs_beyond_the_room_are_dropped(void)
{
	const struct few_donors donors = {.count = 1};
	struct mailbox_repair repair;
	unsigned taken = 0;

	for (unsigned i = 0; i < MAILBOX_REPAIRS + 3; i++)
		mailbox_put_repair(&mailbox, i, 1, &donors);
	while (mailbox_take_repair(&mailbox, &repair))
		taken += repair.page < MAILBOX_REPAIRS;
	ok(taken == MAILBOX_REPAIRS, "repairs that find no room are dropped, and the first ones stay");
}

int main(void)
{
	if (mailbox_open(&mailbox) < 0)
		return 1;
	the_newest_break_wins();
	a_break_is_noticed_once();
	the_oldest_wait_is_kept();
	a_wake_up_is_written_once_until_the_thread_is_awake();
	each_suspect_donor_gets_a_repair();
	repairs_beyond_the_room_are_dropped();
	mailbox_close(&mailbox);
	return tap_done();
}
