/* The loader's own first allocations may call settings_read() before the C library has set `environ`. settings_read()
   then reads /proc/self/environ. */
#include "pager/preload/settings.h"

#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_DEFAULT (UINT64_C(16) << 30)
#define START_MAX (UINT64_C(32) << 20)
#define PREFIX "FARPAGE_"

/* Returns a copy of @value, or NULL if `text` is full. */
static char *keep(struct settings *settings, const char *value)
{
	size_t size = strlen(value) + 1;

	if (size > sizeof settings->text - settings->text_used)
		return NULL;
	char *copy = memcpy(settings->text + settings->text_used, value, size);
	settings->text_used += size;
	return copy;
}

static bool take_size(const char *value, uint64_t *ret_bytes)
{
	return !size_parse(value, ret_bytes);
}

static bool take_number(const char *value, unsigned *ret_number)
{
	unsigned number = 0;

	if (!*value)
		return false;
	for (; *value; value++) {
		if (*value < '0' || *value > '9' || number > UINT32_MAX / 10 - 1)
			return false;
		number = number * 10 + (unsigned)(*value - '0');
	}
	*ret_number = number;
	return true;
}

static bool take_donors(struct settings *settings, const char *value)
{
	char *rest = keep(settings, value);

	if (!rest)
		return false;
	unsigned count = 0;
	for (char *item; (item = strsep(&rest, ",")) && *item; count++) {
		if (count == SETTINGS_DONORS_MAX)
			return false;
		settings->donors[count] = item;
	}
	settings->options.donors = settings->donors;
	settings->options.donor_count = count;
	return count > 0;
}

static bool take_flag(const char *value, bool *ret_flag)
{
	*ret_flag = !strcmp(value, "1");
	return *ret_flag || !strcmp(value, "0");
}

static bool take_text(struct settings *settings, const char *value, const char **ret_text)
{
	if (!*value)
		return true;
	*ret_text = keep(settings, value);
	return *ret_text != NULL;
}

enum kind { SIZE, NUMBER, FLAG, TEXT, DONORS };

/* The variables, without PREFIX, and where their values go in struct settings. */
static const struct variable {
	const char *name;
	enum kind kind;
	size_t offset;
} variables[] = {
    {"LOCAL", SIZE, offsetof(struct settings, options.local)},
    {"DONORS", DONORS, 0},
    {"DONORS_FILE", TEXT, offsetof(struct settings, donors_file)},
    {"KEY_FILE", TEXT, offsetof(struct settings, options.key_file)},
    {"REPLICAS", NUMBER, offsetof(struct settings, options.replicas)},
    {"TIMEOUT_MS", NUMBER, offsetof(struct settings, options.timeout_ms)},
    {"PREFETCH", NUMBER, offsetof(struct settings, options.prefetch_pages)},
    {"SPIN_US", NUMBER, offsetof(struct settings, options.spin_us)},
    {"SCRUB_RATE", SIZE, offsetof(struct settings, options.scrub_rate)},
    {"ENCRYPT", FLAG, offsetof(struct settings, options.encrypt)},
    {"UNSAFE_DIO", FLAG, offsetof(struct settings, options.unsafe_dio)},
    {"VERBOSE", FLAG, offsetof(struct settings, verbose)},
    {"BACKUP", TEXT, offsetof(struct settings, options.backup)},
    {"WINDOW", SIZE, offsetof(struct settings, options.window)},
    {"REPORT", TEXT, offsetof(struct settings, report)},
    {"REPORT_PIDS", TEXT, offsetof(struct settings, report_pids)},
    {"USER", TEXT, offsetof(struct settings, user)},
    {"START_BYTES", SIZE, offsetof(struct settings, start_bytes)},
};

/* Returns false if @value is not a value for @variable. */
static bool take_value(struct settings *settings, const struct variable *variable, const char *value)
{
	void *target = (char *)settings + variable->offset;

	switch (variable->kind) {
	case SIZE:
		return take_size(value, target);
	case NUMBER:
		return take_number(value, target);
	case FLAG:
		return take_flag(value, target);
	case TEXT:
		return take_text(settings, value, target);
	case DONORS:
		return take_donors(settings, value);
	}
	return false;
}

/* Takes the value of @entry, which is "NAME=VALUE", if the name is one of farpage's. */
static void take(struct settings *settings, const char *entry)
{
	if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
		return;
	entry += strlen(PREFIX);
	size_t length = strcspn(entry, "=");
	if (!entry[length])
		return;
	for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *name = variables[i].name;

		if (strlen(name) == length && strncmp(entry, name, length) == 0 &&
		    !take_value(settings, &variables[i], entry + length + 1))
			settings->wrong = name;
	}
}

/* Reads the initial environment. Skips entries longer than the buffer, because farpage has none. */
static void read_proc(struct settings *settings)
{
	char buffer[SETTINGS_TEXT_MAX];
	size_t used = 0;
	bool skipping = false;
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	for (;;) {
		ssize_t got = read(fd, buffer + used, sizeof buffer - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		char *entry = buffer, *end;
		while ((end = memchr(entry, 0, used - (size_t)(entry - buffer)))) {
			if (!skipping)
				take(settings, entry);
			skipping = false;
			entry = end + 1;
		}
		used -= (size_t)(entry - buffer);
		memmove(buffer, entry, used);
		if (used == sizeof buffer) {
			skipping = true;
			used = 0;
		}
	}
	close(fd);
}

bool settings_read(struct settings *settings)
{
	memset(settings, 0, offsetof(struct settings, text)); /* most of `text` is never used, nor made present */
	if (environ) {
		for (char **entry = environ; *entry; entry++)
			take(settings, *entry);
	} else {
		read_proc(settings);
	}
	if (!settings->options.local && !settings->wrong)
		return false;
	if (!settings->options.window)
		settings->options.window = WINDOW_DEFAULT;
	if (!settings->start_bytes) {
		uint64_t quarter = settings->options.local / 4;

		settings->start_bytes = quarter < START_MAX ? quarter : START_MAX;
	}
	return true;
}
