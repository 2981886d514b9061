/*
 * advice_file: the facts of an advice in the file of `farpage run --stats`.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_ADVICE_FILE_H
#define CLI_RUN_ADVICE_FILE_H

#include "cli/run/advice.h"

struct json_object;

/* The name of advice->fetches in the file. The file has the other facts under their names in struct advice. */
#define ADVICE_FILE_FETCHES "fetched_with_more"

/* Returns advice->fetches as a new array, which the caller owns, or NULL if memory is short. */
struct json_object *advice_file_fetches(const struct advice *advice);
/* Reads the facts from the file of statistics at @path. Returns 0, or -errno after one logged line. */
int advice_file_read(const char *path, struct advice *ret_advice);

#endif
