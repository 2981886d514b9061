#include "pager/keep.h"

#include <errno.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHARE 4      /* at most this fraction of the budget is kept */
#define TRIES 100000 /* how often to try until the page is resident */

/* Reads a byte of @page through the kernel. If the page is unmapped, this returns an error, where a plain read would
   raise a signal. /proc/self/mem cannot be used, because its reads do not fault. Returns true on success. */
static bool touch(const struct core *core, uint64_t page)
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {core_address(core, page), 1};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static int bring_in(const struct core *core, uint64_t page)
{
	for (unsigned tries = 0; tries < TRIES && touch(core, page); tries++) {
		/* If the page is just being evicted, the next read fetches it again. */
		if (page_state(pages_load(&core->pages, page)) == PAGE_RESIDENT)
			return 0;
		sched_yield();
	}
	return -EFAULT;
}

int keep_page(struct core *core, uint64_t page)
{
	if (pages_mark(&core->pages, page, PAGE_KEPT) & PAGE_KEPT)
		return 0;
	int error = -ENOSPC;
	if (atomic_fetch_add(&core->kept, 1) < atomic_load(&core->limit) / SHARE)
		error = bring_in(core, page);
	if (error) {
		keep_forget(core, page);
		/* The evictor may have removed the kept page from its queue meanwhile, so the page is queued
		   again. */
		residents_push(&core->residents, page, false);
	}
	return error;
}

void keep_forget(struct core *core, uint64_t page)
{
	if (!(pages_load(&core->pages, page) & PAGE_KEPT))
		return;
	if (pages_unmark(&core->pages, page, PAGE_KEPT) & PAGE_KEPT)
		atomic_fetch_sub(&core->kept, 1);
}
