/*
 * farpage key FILE: makes a key file. It never overwrites a file, because without the old key no client can connect
 * to its donors.
 */
#include "cli/commands.h"
#include "common/config.h"
#include "common/log.h"
#include "wire/auth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void key_help(void)
{
	printf("usage: farpage key FILE\n\n"
	       "Makes a new random key and writes it to FILE, which only its owner can read (mode 0600). An\n"
	       "existing file is not changed. Donors and their clients prove to each other that they have the same\n"
	       "key. So copy the file to each of them in a way that you trust, and name the copy with --key.\n\n"
	       "  farpage key /etc/farpage/key\n"
	       "  farpage-memserver --listen tcp://10.0.0.7:7470 --donate 16G --key /etc/farpage/key\n"
	       "  farpage run --local 2G --donor tcp://10.0.0.7:7470 --key /etc/farpage/key -- COMMAND\n");
}

int command_key(int argc, char **argv)
{
	static const struct config_setting settings[] = {{.name = NULL}};
	int first = config_read(settings, NULL, argc, argv, NULL);
	int result;

	if (first == -ECANCELED) {
		key_help();
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (argc - first != 1) {
		log_error("key: takes one argument, the file to make: farpage key FILE");
		return COMMAND_USAGE;
	}
	result = auth_key_create(argv[first]);
	if (result == -EEXIST) {
		log_error("key: %s exists and is left as it is; name another file, or remove that one first",
			  argv[first]);
		return COMMAND_FAILED;
	}
	if (result < 0) {
		log_error("key: cannot make %s: %s", argv[first], strerror(-result));
		return COMMAND_FAILED;
	}
	printf("made %s; donors and clients that are to know each other need a copy: --key FILE\n", argv[first]);
	return COMMAND_OK;
}
