/*
 * farewell: brings the far pages of forked children back before the program exits.
 *
 * Theory of operation. A forked child can outlive the program, as a daemon does. Its far pages come from the program's
 * pager, which ends with the program. So if children live when the program exits, the exiting thread waits. The handler
 * reads each page that is far for a child, and places it there. Then it tells the child (PASS_LOCAL), and the child
 * answers. Once the program has ended, the child starts a pager of its own (preload/child.c), which evicts pages until
 * the child is within its budget.
 *
 * Until then the children exceed their budgets, and no page is taken back from them (reclaim.h). If this machine does
 * not have the memory, nothing is brought. A child is left out if one of its pages is lost, or if it does not answer
 * within FAREWELL_PATIENCE. A child that keeps far pages is ended when it needs one of them (preload/child.c).
 */
#ifndef PAGER_FAREWELL_H
#define PAGER_FAREWELL_H

#include <stdbool.h>

struct children;
struct handler;

enum farewell {
	FAREWELL_NONE,
	FAREWELL_WANTED, /* a thread of the program waits */
	FAREWELL_DONE
};

/* Waits until the handler has done all it can. Returns at once if no child lives. Takes no lock, so that a signal
   handler may call it. Any thread of the program. */
void farewell_say(struct children *children);
/* Starts reads for children if a thread waits in farewell_say(). Handler only, whenever it is awake. */
void farewell_continue(struct handler *handler);
/* Returns true if farewell_continue() has more to do than to wait for an event. Handler only. */
bool farewell_is_due(const struct handler *handler);

#endif
