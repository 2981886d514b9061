/* file_watch: see file_watch.h. */
#include "common/file_watch.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define FILE_EVENTS ((uint32_t)(IN_CLOSE_WRITE | IN_MOVED_TO))
#define PASSAGE_EVENTS ((uint32_t)(IN_CREATE | IN_MOVED_TO))

/* --- Following the path ----------------------------------------------------------------------------------------- */

/* Watches for the part of watch->walk from @begin to @end, in the folder that the text before it names. */
static int place_add(struct file_watch *watch, size_t begin, size_t end, bool passage)
{
	struct file_watch_place *place = &watch->places[watch->count];
	const char first = watch->walk[begin];

	if (watch->count == FILE_WATCH_LINKS + 1)
		return -ELOOP;
	if (end - begin >= sizeof place->name)
		return -ENAMETOOLONG;
	memcpy(place->name, watch->walk + begin, end - begin);
	place->name[end - begin] = '\0';
	place->passage = passage;
	watch->walk[begin] = '\0';
	/* Another place may be in the same folder. */
	place->folder = inotify_add_watch(
	    watch->fd, watch->walk, (passage ? PASSAGE_EVENTS : FILE_EVENTS | IN_CREATE) | IN_MASK_ADD | IN_ONLYDIR);
	watch->walk[begin] = first;
	if (place->folder < 0)
		return -errno;
	watch->count++;
	return 0;
}

/* Reads the link at the text up to @end into watch->target. Returns its length, or -errno: -EINVAL if it is no link. */
static ssize_t link_read(struct file_watch *watch, size_t end)
{
	const char next = watch->walk[end];
	ssize_t length;

	watch->walk[end] = '\0';
	length = readlink(watch->walk, watch->target, sizeof watch->target);
	if (length < 0)
		length = -errno;
	watch->walk[end] = next;
	return length;
}

/* Replaces the link from *begin to @end by its target. Sets *begin to the first part that is not followed yet. */
static int link_follow(struct file_watch *watch, size_t *begin, size_t end, size_t length)
{
	const size_t kept = *watch->target == '/' ? 0 : *begin, rest = strlen(watch->walk + end) + 1;

	if (kept + length + rest > sizeof watch->walk)
		return -ENAMETOOLONG;
	memmove(watch->walk + kept + length, watch->walk + end, rest);
	memcpy(watch->walk + kept, watch->target, length);
	*begin = kept ? kept : 1;
	return 0;
}

/* Watches the part of the path at *begin, unless it is a folder. Sets *begin to the next part, or to 0 if there is
   none. Returns 0 or -errno. */
static int part_follow(struct file_watch *watch, size_t *begin)
{
	const size_t end = *begin + strcspn(watch->walk + *begin, "/");
	const bool is_last = !watch->walk[end + strspn(watch->walk + end, "/")];
	ssize_t length = link_read(watch, end);

	if (length != -EINVAL || is_last) {
		int error = place_add(watch, *begin, end, length >= 0 || !is_last);

		if (error < 0)
			return error;
		length = link_read(watch, end); /* again, because the link may have changed before it was watched */
	}
	if (length >= 0)
		return link_follow(watch, begin, end, (size_t)length);
	*begin = length == -EINVAL && !is_last ? end : 0;
	return length == -EINVAL || length == -ENOENT ? 0 : (int)length;
}

/* Watches every place where the file may change. */
static int path_follow(struct file_watch *watch)
{
	size_t begin = 0;
	int error = 0;

	watch->count = 0;
	strcpy(watch->walk, watch->path);
	do {
		begin += strspn(watch->walk + begin, "/");
		error = part_follow(watch, &begin);
	} while (begin && error == 0);
	return error;
}

/* --- Changes ---------------------------------------------------------------------------------------------------- */

int file_watch_open(struct file_watch *watch, const char *path)
{
	int error;

	watch->fd = -1;
	if (*path != '/' || strlen(path) >= sizeof watch->path)
		return -ENAMETOOLONG;
	strcpy(watch->path, path);
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	error = watch->fd < 0 ? -errno : path_follow(watch);
	if (error < 0)
		file_watch_close(watch);
	return error;
}

void file_watch_close(struct file_watch *watch)
{
	if (watch->fd >= 0)
		close(watch->fd);
	watch->fd = -1;
}

/* Returns true if the file was made whole: by a link. A new file is still empty, and its change is noticed when it is
   closed. */
static bool file_is_whole(const struct file_watch *watch)
{
	struct stat status;
	char first;

	return readlink(watch->walk, &first, 1) >= 0 || (stat(watch->walk, &status) == 0 && status.st_nlink > 1);
}

/* Returns true if the event for the name of the place is a change there. */
static bool place_changes(const struct file_watch *watch, const struct file_watch_place *place, uint32_t mask)
{
	if (place->passage)
		return mask & PASSAGE_EVENTS;
	return mask & FILE_EVENTS || (mask & IN_CREATE && file_is_whole(watch));
}

static bool event_is_change(const struct file_watch *watch, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (unsigned i = 0; i < watch->count; i++) {
		const struct file_watch_place *place = &watch->places[i];

		if (place->folder != event->wd)
			continue;
		if (event->mask & IN_IGNORED) /* the folder was removed */
			return true;
		if (event->len && strcmp(event->name, place->name) == 0 && place_changes(watch, place, event->mask))
			return true;
	}
	return false;
}

/* Follows the path anew, and ends the watches that are not needed any more. */
static int path_renew(struct file_watch *watch)
{
	int before[FILE_WATCH_LINKS + 1], error;
	const unsigned count = watch->count;

	for (unsigned i = 0; i < count; i++)
		before[i] = watch->places[i].folder;
	error = path_follow(watch);
	for (unsigned i = 0; i < count; i++) {
		bool needed = false;

		for (unsigned j = 0; j < watch->count; j++)
			needed |= watch->places[j].folder == before[i];
		if (!needed)
			inotify_rm_watch(watch->fd, before[i]); /* fails if the folder is gone */
	}
	return error;
}

int file_watch_read(struct file_watch *watch, bool *ret_changed)
{
	_Alignas(struct inotify_event) char bytes[4096];
	bool changed = false;
	ssize_t got;

	*ret_changed = false;
	while (watch->fd >= 0 && (got = read(watch->fd, bytes, sizeof bytes)) > 0) {
		const struct inotify_event *event;

		for (char *at = bytes; at < bytes + got; at += sizeof *event + event->len) {
			event = (const struct inotify_event *)at;
			changed |= event_is_change(watch, event);
		}
	}
	*ret_changed = changed;
	return changed ? path_renew(watch) : 0;
}
