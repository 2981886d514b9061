/* Unit tests of blockdev/status: what is said is JSON, whatever the names are, and has the figures. */
#include "blockdev/daemon/status.h"
#include "tests/tap.h"

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

/* One page written, and a request that cannot be. */
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
	ok(object != NULL, "it is JSON");
	ok(!strchr(reply, '\n'), "in one line");
	ok(!strcmp(text(object, "name"), "abc"), "odd characters of a name are left out");
	ok(number(object, "size") == PAGES * STORE_PAGE && !strcmp(text(object, "device"), "/dev/ublkb5") &&
	       number(object, "number") == 5 && !strcmp(text(object, "frontend"), "ublk"),
	   "the device");
	ok(number(object, "uptime_s") == 7 && number(object, "restarts") == 3, "how long, and how often anew");
	ok(number(object, "pages_live") == 1 && number(object, "bytes_used") == STORE_PAGE, "what is used");
	ok(number(object, "pages_scrubbed") == 0 && number(object, "checksum_errors") == 0, "what was found of it");
	ok(json_object_object_get_ex(object, "requests", &part) && number(part, "write") == 1, "requests");
	ok(json_object_object_get_ex(object, "errors", &part) && number(part, "read") == 1 &&
	       number(part, "write") == 0,
	   "errors");
	ok(json_object_object_get_ex(object, "safety", &part) && json_object_object_length(part) == 4, "safety steps");
	ok(json_object_object_get_ex(object, "adoptable", &part) && !json_object_get_boolean(part),
	   "own memory cannot be adopted");
	ok(json_object_object_get_ex(object, "donors", &part) && json_object_array_length(part) == 0, "no donors");
	memset(cut, 'x', sizeof cut);
	status_write(&status, cut, sizeof cut - 1);
	ok(strlen(cut) < sizeof cut - 1 && cut[sizeof cut - 1] == 'x', "what does not fit is cut off in bounds");
	json_object_put(object);
	disk_close(disk);
	store_close(store);
	return tap_done();
}
