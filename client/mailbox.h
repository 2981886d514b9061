/*
 * mailbox: marks that the data path leaves for the control thread and the rebuild thread.
 *
 * Theory of operation. Queues and the backup's thread must not call functions that belong to the control thread or
 * the rebuild thread. They set a mark here instead, and wake the reader by an eventfd:
 *
 *   wake     The control thread must look at the chunks that are marked in chunks.h.
 *   break    A connection to a donor has ended. The mailbox keeps only the break of the newest round of each donor.
 *   wait     A request waits for a donor. The mailbox keeps only the oldest wait for each donor.
 *   repair   Some donors may have changed these pages. If all MAILBOX_REPAIRS places are in use, the repair is
 *            dropped, because the next read of the page asks for it again.
 *
 * Each mark is one atomic word. The reader takes a mark by an atomic exchange with 0, so a mark that another thread
 * sets at the same moment is not lost.
 *
 * Threads. Any thread may set marks. Only the control thread takes breaks and waits. Only the rebuild thread takes
 * repairs.
 */
#ifndef CLIENT_MAILBOX_H
#define CLIENT_MAILBOX_H

#include "client/donor_set.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MAILBOX_REPAIRS 64u

struct mailbox {
	int control_wake, rebuild_wake; /* eventfds */
	_Atomic bool control_woken;     /* control_wake was written, and the control thread has not read it yet */
	_Atomic bool broke;             /* some donor may have a break */
	struct {
		_Atomic uint64_t broke; /* round << 32 | -status, or 0 for none */
		_Atomic uint64_t waits; /* when the oldest wait began, or 0 for none */
	} donors[FAR_DONORS_MAX];
	_Atomic uint64_t repairs[MAILBOX_REPAIRS]; /* 0 for none; mailbox.c has the format */
};

struct mailbox_repair {
	uint64_t page;
	uint32_t count;
	unsigned donor;
};

/* *@mailbox is all zero. Returns 0 or -errno. */
int mailbox_open(struct mailbox *mailbox);
void mailbox_close(struct mailbox *mailbox);

/* Wakes the control thread, which then looks at all marks. */
void mailbox_wake_control(struct mailbox *mailbox);
/* Must be called when control_wake is readable, before the control thread looks at the marks. */
void mailbox_control_is_awake(struct mailbox *mailbox);
void mailbox_wake_rebuild(struct mailbox *mailbox);
/* Must be called when rebuild_wake is readable, before the rebuild thread looks at the marks. */
void mailbox_rebuild_is_awake(struct mailbox *mailbox);

/* Reports that a connection to this donor, begun in @round, has ended or could not be made. @status is negative. */
void mailbox_put_break(struct mailbox *mailbox, unsigned donor, uint32_t round, int status);
/* Returns true if a break was put since the last call. */
bool mailbox_has_breaks(struct mailbox *mailbox);
/* Takes the donor's break. Returns its status, or 0 if there is no break of @round. */
int mailbox_take_break(struct mailbox *mailbox, unsigned donor, uint32_t round);

/* Notes that a request has waited for this donor since @since (of far_now()). */
void mailbox_put_wait(struct mailbox *mailbox, unsigned donor, uint64_t since);
/* Returns when the oldest wait began, or 0 for none. Does not clear the wait. */
uint64_t mailbox_oldest_wait(const struct mailbox *mailbox, unsigned donor);
/* Clears the donor's wait. A request that still waits calls mailbox_put_wait() again. */
void mailbox_forget_waits(struct mailbox *mailbox, unsigned donor);

/* Asks for a repair of these pages, which each donor in @donors may have changed. @count is at most 511. */
void mailbox_put_repair(struct mailbox *mailbox, uint64_t page, uint32_t count, const struct few_donors *donors);
/* Takes one repair. Returns false if there is none. */
bool mailbox_take_repair(struct mailbox *mailbox, struct mailbox_repair *ret_repair);

#endif
