/* file_watch: changes of a file are noticed, however its path leads to it. */
#include "common/file_watch.h"
#include "tests/lib/folder.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

static struct file_watch watch;

/* Returns the path of a file in the test's folder. The text is valid until the third call after this one. */
static const char *at(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, PATH_MAX, "%s/%s", folder(), name);
	return path;
}

static void watch_or_die(const char *name)
{
	if (file_watch_open(&watch, at(name)) < 0)
		tap_bail("cannot watch %s", name);
}

/* Replaces a link, as kubelet and `ln -sfn` do. */
static void link_to(const char *target, const char *name)
{
	remove(at("fresh"));
	if (symlink(target, at("fresh")) < 0 || rename(at("fresh"), at(name)) < 0)
		tap_bail("no link %s", name);
}

static void rename_over(const char *name)
{
	folder_put("fresh", "changed");
	if (rename(at("fresh"), at(name)) < 0)
		tap_bail("cannot rename over %s", name);
}

/* inotify reports a change before the call that makes it has returned. */
static bool noticed(void)
{
	struct pollfd fd = {.fd = watch.fd, .events = POLLIN};
	bool changed = false, readable = poll(&fd, 1, 0) == 1;

	return file_watch_read(&watch, &changed) == 0 && changed && readable;
}

static void changes_of_a_plain_file_are_noticed(void)
{
	folder_put("plain/file", "one");
	watch_or_die("plain/file");
	ok(!noticed(), "no change is noticed before there is one");
	folder_put("plain/file", "two");
	ok(noticed() && !noticed(), "a file that is written in place is noticed once");
	rename_over("plain/file");
	ok(noticed() && !noticed(), "a file that is renamed over the watched one is noticed once");
	folder_put("plain/other", "three");
	ok(!noticed(), "another file in the folder does not count as a change");
	file_watch_close(&watch);
}

static void a_config_map_is_followed(void)
{
	bool all = true;

	folder_put("map/..1/file", "one");
	link_to("..1", "map/..data");
	link_to("..data/file", "map/file");
	watch_or_die("map/file");
	for (unsigned i = 2; i < 40; i++) {
		char fresh[32], before[32], name[32];

		snprintf(fresh, sizeof fresh, "map/..%u/file", i);
		folder_put(fresh, "another");
		all &= !noticed();
		snprintf(name, sizeof name, "..%u", i);
		link_to(name, "map/..data");
		all &= noticed();
		snprintf(before, sizeof before, "map/..%u/file", i - 1);
		remove(at(before));
		snprintf(before, sizeof before, "map/..%u", i - 1);
		all &= remove(at(before)) == 0 && !noticed();
	}
	ok(all, "each of 38 versions of a ConfigMap is noticed once, and the removal of the version before is not");
	folder_put("map/..39/file", "in place");
	ok(noticed(), "a file behind two links that is written in place is noticed");
	ok(watch.count == 3, "one place is watched for each link, and one for the file");
	file_watch_close(&watch);
}

static void links_with_absolute_targets_are_followed(void)
{
	folder_put("deep/er/file", "one");
	folder_put("other/er/file", "two");
	link_to(at("deep"), "absolute");
	link_to("../absolute/./er", "plain/relative");
	watch_or_die("plain/relative/file");
	rename_over("deep/er/file");
	ok(noticed(), "a file that is renamed over the one behind two links is noticed");
	link_to(at("other"), "absolute");
	ok(noticed(), "a replaced link in the target of a link is noticed");
	rename_over("deep/er/file");
	ok(!noticed(), "the file to which the old link leads is not watched any more");
	rename_over("other/er/file");
	ok(noticed(), "the file to which the new link leads is watched");
	file_watch_close(&watch);
}

static void missing_parts_are_noticed_when_they_appear(void)
{
	folder_put("missing/place", "");
	link_to("later/file", "missing/file");
	watch_or_die("missing/file");
	mkdir(at("missing/later"), 0700);
	ok(noticed(), "a missing folder behind a link is noticed when it is made");
	folder_put("missing/later/file", "one");
	ok(noticed(), "the file in the new folder is noticed");
	remove(at("missing/later/file"));
	remove(at("missing/later"));
	ok(noticed(), "the removal of the file's folder is noticed");
	mkdir(at("missing/later"), 0700);
	folder_put("missing/later/file", "two");
	ok(noticed(), "a folder that is made again is noticed");
	remove(at("missing/file"));
	if (symlink("place", at("missing/file")) < 0)
		tap_bail("no link");
	ok(noticed(), "a link that is removed and made again is noticed");
	file_watch_close(&watch);
}

static void made_links_are_noticed_in_place_of_a_file(void)
{
	folder_put("swap/one", "one");
	folder_put("swap/two", "two");
	folder_put("swap/file", "three");
	watch_or_die("swap/file");
	remove(at("swap/file"));
	if (symlink("one", at("swap/file")) < 0)
		tap_bail("no link");
	ok(noticed() && !noticed(), "a link in place of a removed file is noticed once");
	folder_put("swap/one", "four");
	ok(noticed(), "the file to which it leads is watched");
	file_watch_close(&watch);
	remove(at("swap/file"));
	watch_or_die("swap/file");
	if (link(at("swap/two"), at("swap/file")) < 0)
		tap_bail("no hard link");
	ok(noticed(), "a hard link in place of a missing file is noticed");
	remove(at("swap/file"));
	close(open(at("swap/file"), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
	ok(!noticed(), "a new file is not noticed before it is written");
	folder_put("swap/file", "five");
	ok(noticed() && !noticed(), "a new file is noticed once when it was written");
	file_watch_close(&watch);
}

static void endless_links_are_refused(void)
{
	bool changed;

	link_to("two", "one");
	link_to("one", "two");
	ok(file_watch_open(&watch, at("one")) == -ELOOP && watch.fd == -1, "links in a circle are refused");
	ok(file_watch_read(&watch, &changed) == 0 && !changed, "a watch that was refused notices nothing");
	folder_put("good", "one");
	link_to("good", "link");
	watch_or_die("link");
	link_to("one", "link");
	ok(file_watch_read(&watch, &changed) == -ELOOP && changed, "a link that begins to lead in a circle is told");
	link_to("good", "link");
	ok(noticed(), "the repair of a link that led in a circle is noticed");
	file_watch_close(&watch);
	ok(file_watch_open(&watch, "relative") < 0, "a relative path is refused");
	file_watch_close(&watch);
}

int main(void)
{
	changes_of_a_plain_file_are_noticed();
	a_config_map_is_followed();
	links_with_absolute_targets_are_followed();
	missing_parts_are_noticed_when_they_appear();
	made_links_are_noticed_in_place_of_a_file();
	endless_links_are_refused();
	return tap_done();
}
