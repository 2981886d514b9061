/*
 * folder: a folder for the files of a test. The first call makes it. When the test exits, the folder is removed with
 * its contents. The end of a forked process does not remove it.
 */
#ifndef TESTS_LIB_FOLDER_H
#define TESTS_LIB_FOLDER_H

#include "tests/lib/text.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t folder_owner; /* 0 if there is no folder yet */
static char folder_name[] = "/tmp/farpage-test-XXXXXX";

static inline int folder_remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	(void)status;
	(void)kind;
	(void)at;
	return remove(path);
}

static inline void folder_remove(void)
{
	if (getpid() == folder_owner)
		nftw(folder_name, folder_remove_one, 8, FTW_DEPTH | FTW_MOUNT | FTW_PHYS);
}

static inline const char *folder(void)
{
	if (!folder_owner) {
		if (!mkdtemp(folder_name))
			tap_bail("no folder for the test's files");
		folder_owner = getpid();
		atexit(folder_remove);
	}
	return folder_name;
}

/* Returns the path of @name in the folder. The text is valid until the program ends. */
static inline const char *folder_path(const char *name)
{
	static char paths[1 << 13];
	static size_t used;
	char *path = paths + used;

	used += 1 + (size_t)snprintf(path, sizeof paths - used, "%s/%s", folder(), name);
	if (used > sizeof paths)
		tap_bail("too many files in the test's folder");
	return path;
}

/* Writes @text to the file @name in the folder. Makes missing folders in @name. */
static inline void folder_put(const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", folder(), name);
	for (char *slash = path + sizeof folder_name; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0700);
	}
	text_write(path, text);
}

#endif
