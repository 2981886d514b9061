/* daemon_log: see daemon_log.h. */
#include "common/daemon_log.h"

#include "common/format.h"
#include "common/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ENTRY_MAX 2048u /* the text of a line has at most 1024 bytes */
#define FIELD_MAX 256u  /* a URI of a donor fits */

static struct {
	int fd;
	struct sockaddr_un address;
} journal = {.fd = -1};

static _Atomic bool has_stamps = true;

/* Priorities of syslog(3). */
static const char *const priorities[] = {
    [LOG_LEVEL_ERROR] = "3", [LOG_LEVEL_WARNING] = "4", [LOG_LEVEL_INFO] = "6", [LOG_LEVEL_DEBUG] = "7"};

struct entry {
	char bytes[ENTRY_MAX];
	size_t length;
};

/* Appends "NAME=VALUE" and a newline. Cuts a long value. Replaces control characters: after a newline, a value of a
   peer would be read as another field. */
static void field_add(struct entry *entry, const char *name, const char *value, size_t length)
{
	const size_t name_length = strlen(name), room = ENTRY_MAX - entry->length;
	char *at = entry->bytes + entry->length;

	if (!value || name_length + 2 >= room)
		return;
	if (length > room - name_length - 2)
		length = room - name_length - 2;
	memcpy(at, name, name_length);
	at[name_length] = '=';
	for (size_t i = 0; i < length; i++) {
		const unsigned char byte = (unsigned char)value[i];

		at[name_length + 1 + i] = (char)(byte < 0x20 || byte == 0x7f ? '?' : byte);
	}
	at[name_length + 1 + length] = '\n';
	entry->length += name_length + length + 2;
}

static void text_field_add(struct entry *entry, const char *name, const char *value)
{
	const size_t length = value ? strlen(value) : 0;

	field_add(entry, name, value, length < FIELD_MAX ? length : FIELD_MAX);
}

static bool entry_send(enum log_level level, const char *name, const struct log_fields *fields, const char *text,
		       size_t length)
{
	struct entry entry = {.length = 0};

	text_field_add(&entry, "PRIORITY", priorities[level]);
	text_field_add(&entry, "SYSLOG_IDENTIFIER", name);
	field_add(&entry, "MESSAGE", text, length);
	if (fields) {
		text_field_add(&entry, "MESSAGE_ID", fields->id);
		text_field_add(&entry, "DONOR", fields->donor);
		text_field_add(&entry, "CLIENT", fields->client);
		text_field_add(&entry, "DEVICE", fields->device);
	}
	/* The address is given each time, because journald may have been restarted. */
	return journal.fd >= 0 &&
	       sendto(journal.fd, entry.bytes, entry.length, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&journal.address, sizeof journal.address) == (ssize_t)entry.length;
}

static size_t stamp(char *text, size_t size)
{
	struct timespec now;
	struct tm utc;
	size_t length;

	if (!has_stamps)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	length = format_text(text, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", utc.tm_year + 1900, utc.tm_mon + 1,
			     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
	return length < size ? length : size - 1;
}

void daemon_log_open(const char *socket_path)
{
	static const struct log_daemon daemon = {.send = entry_send, .stamp = stamp};

	if (journal.fd < 0)
		journal.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	journal.address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(journal.address.sun_path, sizeof journal.address.sun_path, "%s", socket_path);
	log_set_daemon(&daemon);
}

void daemon_log_stamp(bool stamped)
{
	has_stamps = stamped;
}
