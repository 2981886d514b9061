/*
 * beside: finds the files that farpage installs beside this program.
 *
 * Threads: any.
 */
#ifndef CLI_BESIDE_H
#define CLI_BESIDE_H

#include <limits.h>
#include <stdbool.h>

/* Finds @name in the first of @count folders that has it. A folder ends with "/", or is "" for this program's own
   folder. A folder that does not begin with "/" is relative to this program's folder. Writes the path without links
   to @ret_path. */
bool beside_find(const char *const folders[], unsigned count, const char *name, char ret_path[PATH_MAX]);

#endif
