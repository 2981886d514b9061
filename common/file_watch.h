/*
 * file_watch: notices changes of one file, also if its path goes through symbolic links.
 *
 * Theory of operation. inotify watches the file's folder, so a change is noticed if the file is rewritten in place, or
 * if another file is renamed over it. It is also noticed if the file is removed and a link takes its place. If parts of
 * the path are links, inotify also watches the folder of each link: a change is noticed if a link is replaced.
 * Kubernetes changes a ConfigMap in this way, by a link "..data". If a part of the path is missing, inotify watches the
 * folder where it is missing. After each change, the path is followed anew.
 *
 * It does not notice that the file is removed, or that a folder (no link) of the path is replaced.
 *
 * Threads: any, one at a time. Near threads (format.h) may call these functions, which allocate nothing.
 */
#ifndef COMMON_FILE_WATCH_H
#define COMMON_FILE_WATCH_H

#include <limits.h>
#include <stdbool.h>

/* At most so many links are followed. */
#define FILE_WATCH_LINKS 15u

struct file_watch_place {
	int folder;   /* inotify's number of the folder */
	bool passage; /* a link, or a missing folder; otherwise the file itself */
	char name[NAME_MAX + 1];
};

struct file_watch {
	int fd; /* inotify: readable after a change; or -1 */
	unsigned count;
	struct file_watch_place places[FILE_WATCH_LINKS + 1]; /* where a change is expected */
	char path[PATH_MAX];
	char walk[PATH_MAX];   /* for following the path; then the file without links */
	char target[PATH_MAX]; /* for following the path */
};

/* Starts to watch the file at the absolute @path. Returns 0 or -errno, such as -ELOOP for too many links. After an
   error `fd` is -1, and the other functions do nothing. */
int file_watch_open(struct file_watch *watch, const char *path);
void file_watch_close(struct file_watch *watch);
/* Reads the reports of inotify, without waiting. Stores true in *ret_changed if the file may have changed. Returns 0,
   or -errno if the path cannot be watched completely any more. */
int file_watch_read(struct file_watch *watch, bool *ret_changed);

#endif
