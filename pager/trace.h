/*
 * trace: a debugging aid of builds with -Dtrace=true. It stores a hash of each page that leaves the program, and
 * compares the hash when the page returns. So it finds pages that the pager itself has damaged before the store
 * computed their checksum.
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
/* Records that @page leaves with the contents @data. @data is NULL if the page must read as zeroes from now on. */
void trace_left(uint64_t page, const char *data);
/* Stops the process if @data differs from the contents with which @page left. @what ends the log line. */
void trace_compare(struct core *core, uint64_t page, const char *data, const char *what);
/* Logs that the kernel moved @count pages without counting them (take.c). Does nothing if @count is 0. */
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
