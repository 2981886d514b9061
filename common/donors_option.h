/*
 * donors_option: the option --donor of every program. It names donors one by one, or a donors file as "@FILE".
 *
 * Threads: the main thread, before it starts others.
 */
#ifndef COMMON_DONORS_OPTION_H
#define COMMON_DONORS_OPTION_H

#include "common/config.h"

/*
 * If @donors is "@FILE", replaces it by the donors that the file names, and sets *ret_file to the file's absolute path.
 * A relative path is taken from the current directory. Otherwise sets *ret_file to NULL. The strings live until exit.
 * Returns 0, or -EINVAL after one logged line. @donors is then unchanged.
 */
int donors_option_expand(struct config_list *donors, const char **ret_file);

#endif
