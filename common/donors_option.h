/*
 * donors_option: handles "@FILE" and "dns+srv://NAME" in the option --donor. In every program, the option takes either
 * a list of URIs and DNS names (donors_dns.h), or "@" and the path of a donors file.
 *
 * Threads: the main thread, before it starts others.
 */
#ifndef COMMON_DONORS_OPTION_H
#define COMMON_DONORS_OPTION_H

#include "common/config.h"

/* If @donors is "@FILE", replaces it by the donors in that file, and sets *ret_file to the file's absolute path.
   Otherwise, sets *ret_file to NULL, and replaces each "dns+srv://NAME" by the donors that DNS has. The strings exist
   until exit. Returns 0, or -EINVAL after one logged line; @donors is then unchanged. */
int donors_option_expand(struct config_list *donors, const char **ret_file);

#endif
