/*
 * defaults: what the files of defaults say, for every verb: ~/.config/farpage/farpage.ini (XDG_CONFIG_HOME in place of
 * ~/.config), then /etc/farpage/farpage.ini, or the one file that the environment variable FARPAGE_CONFIG names (empty:
 * none). [farpage] has what all verbs share: donor, key, admin-key; [run] what run has besides; [farpage-blockdev] what
 * disk and swap have.
 *
 * Threads: the program's first.
 */
#ifndef CLI_DEFAULTS_H
#define CLI_DEFAULTS_H

#include "common/config.h"

/*
 * config_read() with these files, of which none is read when @file_option is given. @section: of the file that
 * @file_option names, and of the verb there; NULL: it has none.
 */
int defaults_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		  const char *file_option);

#endif
