/* entries: counts the entries of a folder, such as descriptors in /proc/self/fd or threads in /proc/self/task. */
#ifndef TESTS_LIB_ENTRIES_H
#define TESTS_LIB_ENTRIES_H

#include <dirent.h>

/* Returns the number of entries, or 0 if there is no such folder. /proc/self/fd includes the folder itself. */
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
