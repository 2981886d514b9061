/*
 * pagemap: which pages of this process have contents: in memory, or in the host's swap, for which mincore(2) says that
 * they are absent. Any thread.
 *
 * Source: Documentation/admin-guide/mm/pagemap.rst.
 */
#ifndef PAGER_PAGEMAP_H
#define PAGER_PAGEMAP_H

#include <stdbool.h>

#define PAGEMAP_MAX 512 /* pages asked for at once */

/* A descriptor, the caller's to close; or -errno. */
int pagemap_open(void);
/* Of @count pages (at most PAGEMAP_MAX) from @address on, which is a page's; nothing is mapped there: they have none.
   -EIO. */
int pagemap_present(int pagemap, const void *address, unsigned count, bool *ret_present);

#endif
