/*
 * drain_file: what keeps a drained donor drained when its program is started again: a file that is there while it is.
 *
 * The file is made with what it means in it, for whoever finds it, and not flushed to its disk: a program that ends,
 * and a machine that is shut down, leave it; a machine that loses its power right after a drain may not.
 *
 * Threads. Any; the functions may wait for the file system.
 */
#ifndef MEMSERVER_DRAIN_FILE_H
#define MEMSERVER_DRAIN_FILE_H

#include <stdbool.h>

/* Whether the donor is drained, and the file could be made or removed. -errno after one logged line. */
int drain_file_read(const char *path, bool *ret_drained);
/* Makes it, naming @from as who drained, or removes it; what cannot be done is logged. @path NULL: does nothing. */
void drain_file_write(const char *path, bool drained, const char *from);

#endif
