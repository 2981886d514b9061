/*
 * defaults: reads options together with the files of defaults, for every verb.
 *
 * If the environment variable FARPAGE_CONFIG is set, it names the only file. If the variable is empty, no file is read.
 * If it is not set, these files are read, and the first one has precedence:
 * - ~/.config/farpage/farpage.ini, with $XDG_CONFIG_HOME in place of ~/.config if it is set;
 * - farpage.ini in the system's folder, normally /etc/farpage.
 *
 * The files have these sections:
 * - [farpage]: the options that all verbs share: donor, key, admin-key;
 * - [run]: further options of run;
 * - [farpage-blockdev]: the options of disk and swap;
 * - [helper]: the options of the helper, which counts only in the system's folder.
 *
 * Threads: the main thread.
 */
#ifndef CLI_DEFAULTS_H
#define CLI_DEFAULTS_H

#include "common/config.h"

/* Calls config_read_defaults() with these files. If the command line has the option @file_option, reads the file that
   this option names in place of the files of defaults. @section is the verb's section in all these files, or NULL if
   the verb has none. */
int defaults_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		  const char *file_option);

#endif
