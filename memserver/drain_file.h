/*
 * drain_file: the file that keeps a drained donor drained when its program restarts. The file exists while the donor is
 * drained.
 *
 * The file's text explains its meaning to anyone who finds it. The file is not flushed to disk. The file survives the
 * end of the program and a shutdown of the machine, but not always a loss of power right after a drain.
 *
 * Threads. Any thread may call these functions. They may wait for the file system.
 */
#ifndef MEMSERVER_DRAIN_FILE_H
#define MEMSERVER_DRAIN_FILE_H

#include <stdbool.h>

/*
 * Checks that the file can be created and removed. *ret_drained says whether the file exists. Returns 0, or -errno
 * after one logged line.
 */
int drain_file_read(const char *path, bool *ret_drained);
/*
 * Creates the file if @drained, naming @from as the operator, or else removes it. Logs failures. Does nothing if @path
 * is NULL.
 */
void drain_file_write(const char *path, bool drained, const char *from);

#endif
