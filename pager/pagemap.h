/*
 * pagemap: says which pages of this process have contents, in memory or in the host's swap, and which of them are
 * write-protected. mincore(2) cannot be used, because it reports swapped pages as absent. Any thread.
 *
 * Source: Documentation/admin-guide/mm/pagemap.rst.
 */
#ifndef PAGER_PAGEMAP_H
#define PAGER_PAGEMAP_H

#include <stdbool.h>

#define PAGEMAP_MAX 512 /* pages per query */

/* Returns a descriptor, which the caller closes, or -errno. */
int pagemap_open(void);
/* For @count pages (at most PAGEMAP_MAX) from the page-aligned @address on, sets @ret_present to true if the page
   has contents. Unmapped pages have none. Returns 0 or -EIO. */
int pagemap_present(int pagemap, const void *address, unsigned count, bool *ret_present);
/* The same, for pages that are in memory and that userfaultfd write-protects. */
int pagemap_protected(int pagemap, const void *address, unsigned count, bool *ret_protected);

#endif
