/*
 * trace: in a build with -Dtrace=true, the hash of every page that left, compared when it comes back. It finds what the
 * store's checksums cannot: a page that went wrong inside the pager. Other builds have none of it.
 *
 * Threads: a page's entry belongs to whoever holds the page in an in-between state (pages.h).
 */
#ifndef PAGER_TRACE_H
#define PAGER_TRACE_H

#include "pager/core.h"

#ifdef FARPAGE_TRACE
/* A table for @count pages. -ENOMEM. */
int trace_open(uint64_t count);
/* 0 for a page of zeroes. */
uint64_t trace_hash(const char *data);
/* @page leaves with the contents @data; NULL: it has none any more, and is to read as zeroes. */
void trace_left(uint64_t page, const char *data);
/* Stops the process if @data is not what @page left with. @what: for the log. */
void trace_compare(struct core *core, uint64_t page, const char *data, const char *what);
/* Logs that the kernel has moved @count pages and not counted them (take.c). */
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
