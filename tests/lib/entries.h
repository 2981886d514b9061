/* entries: how many there are in a folder: descriptors in /proc/self/fd, threads in /proc/self/task. */
#ifndef TESTS_LIB_ENTRIES_H
#define TESTS_LIB_ENTRIES_H

#include <dirent.h>

/* 0: no such folder. Of /proc/self/fd, one is the folder itself. */
static inline unsigned entries(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	unsigned count = 0;

	while (folder && (entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return count;
}

#endif
