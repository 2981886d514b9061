/*
 * trace: in a build with -Dtrace=true, keeps the hash of every page that left and compares it when the page comes back.
 * It finds pages that the pager itself has spoilt, which the store's checksums cannot find. Other builds do not have
 * this code.
 *
 * Threads: a page's entry belongs to the thread that has moved the page to an in-between state (pages.h).
 */
#ifndef PAGER_TRACE_H
#define PAGER_TRACE_H

#include "pager/core.h"

#ifdef FARPAGE_TRACE
/* Allocates a table for @count pages. Returns 0 or -ENOMEM. */
int trace_open(uint64_t count);
/* Returns the hash of a page, or 0 for a page of zeroes. */
uint64_t trace_hash(const char *data);
/* Records that @page leaves with the contents @data. NULL means that it has no contents any more and must read as
   zeroes. */
void trace_left(uint64_t page, const char *data);
/* Stops the process if @data differs from the contents with which @page left. @what is for the log. */
void trace_compare(struct core *core, uint64_t page, const char *data, const char *what);
/* Logs that the kernel has moved @count pages without counting them (take.c), unless @count is 0. */
void trace_uncounted(unsigned count);
#else
static inline int trace_open(uint64_t count)
{
	(void)count;
	return 0;
}
static inline uint64_t trace_hash(const char *data)
{
	(void)data;
	return 0;
}
static inline void trace_left(uint64_t page, const char *data)
{
	(void)page, (void)data;
}
static inline void trace_compare(struct core *core, uint64_t page, const char *data, const char *what)
{
	(void)core, (void)page, (void)data, (void)what;
}
static inline void trace_uncounted(unsigned count)
{
	(void)count;
}
#endif

#endif
