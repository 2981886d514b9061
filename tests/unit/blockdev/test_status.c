/* Unit tests of blockdev/status: the status is JSON whatever the name is, and contains the figures. */
#include "blockdev/daemon/status.h"
#include "tests/lib/tap.h"

#include <json-c/json.h>

#define PAGES 512u

static const struct frontend_ops ops = {.name = "ublk", .adopts = true};

static int64_t number(struct json_object *object, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) ? json_object_get_int64(value) : -1;
}

static const char *text(struct json_object *object, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) ? json_object_get_string(value) : "";
}

/* Writes one page, and submits a read outside the disk. */
static void use_disk(struct disk *disk)
{
	static _Alignas(STORE_PAGE) unsigned char page[STORE_PAGE] = {1};
	struct disk_request good = {.op = DISK_WRITE, .offset = STORE_PAGE, .length = STORE_PAGE, .data = page};
	struct disk_request bad = {.op = DISK_READ, .offset = STORE_PAGE * PAGES, .length = STORE_PAGE, .data = page};
	struct disk_request *done[2];
	struct disk_queue *queue;
	struct store_buffer *buffer;
	unsigned count = 0;

	if (store_register(disk_store(disk), page, sizeof page, &buffer) < 0 || disk_queue_open(disk, 2, &queue) < 0)
		exit(EXIT_FAILURE);
	good.buffer = bad.buffer = buffer;
	disk_submit(queue, &good);
	disk_submit(queue, &bad);
	while (count < 2)
		count += disk_poll(queue, done, 2 - count);
	disk_queue_close(queue);
	store_deregister(disk_store(disk), buffer);
}

int main(void)
{
	static char reply[8192], cut[128];
	struct settings settings = {.name = "a\"b\\c\n", .size = PAGES * STORE_PAGE, .memory = true};
	struct status status = {.settings = &settings, .frontend = &ops, .uptime_s = 7, .restarts = 3};
	struct json_object *object, *part;
	struct store *store;
	struct disk *disk;

	if (store_open_memory(PAGES, &store) < 0 || disk_open(store, settings.size, &disk) < 0)
		return EXIT_FAILURE;
	use_disk(disk);
	status.store = store;
	status.disk = disk;
	status.device = (struct frontend_device){.path = "/dev/ublkb5", .number = 5};
	status_write(&status, reply, sizeof reply);
	object = json_tokener_parse(reply);
	ok(object != NULL, "the status is JSON");
	ok(!strchr(reply, '\n'), "the status is one line");
	ok(!strcmp(text(object, "name"), "abc"), "the status leaves out quotes, backslashes and line breaks of a name");
	ok(number(object, "size") == PAGES * STORE_PAGE && !strcmp(text(object, "device"), "/dev/ublkb5") &&
	       number(object, "number") == 5 && !strcmp(text(object, "frontend"), "ublk"),
	   "the status has the device's size, path, number and front end");
	ok(number(object, "uptime_s") == 7 && number(object, "restarts") == 3,
	   "the status has the uptime and the restarts");
	ok(number(object, "pages_live") == 1 && number(object, "bytes_used") == STORE_PAGE,
	   "the status counts the page that was written as used");
	ok(number(object, "pages_scrubbed") == 0 && number(object, "checksum_errors") == 0,
	   "the status has the counts of scrubbed pages and checksum errors");
	ok(json_object_object_get_ex(object, "requests", &part) && number(part, "write") == 1,
	   "the status counts the write request");
	ok(json_object_object_get_ex(object, "errors", &part) && number(part, "read") == 1 &&
	       number(part, "write") == 0,
	   "the status counts the failed read and no failed write");
	ok(json_object_object_get_ex(object, "safety", &part) && json_object_object_length(part) == 4,
	   "the status has the four safety steps of a device that is no swap space");
	ok(json_object_object_get_ex(object, "adoptable", &part) && !json_object_get_boolean(part),
	   "the status says that a device in memory cannot be adopted");
	ok(json_object_object_get_ex(object, "donors", &part) && json_object_array_length(part) == 0,
	   "the status lists no donors for a device in memory");
	memset(cut, 'x', sizeof cut);
	status_write(&status, cut, sizeof cut - 1);
	ok(strlen(cut) < sizeof cut - 1 && cut[sizeof cut - 1] == 'x',
	   "a status that does not fit is cut off within its bounds");
	json_object_put(object);
	disk_close(disk);
	store_close(store);
	return tap_done();
}
