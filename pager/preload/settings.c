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

static void take(struct settings *settings, const char *entry)
{
	static const char *const names[] = {"LOCAL",       "DONORS",  "KEY_FILE", "TIMEOUT_MS",  "PREFETCH",
					    "SPIN_US",     "WINDOW",  "REPORT",   "START_BYTES", "REPLICAS",
					    "SCRUB_RATE",  "ENCRYPT", "BACKUP",   "UNSAFE_DIO",  "VERBOSE",
					    "DONORS_FILE", "USER"};

	if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
		return;
	entry += strlen(PREFIX);
	const char *value = strchr(entry, '=');
	if (!value)
		return;
	size_t length = (size_t)(value++ - entry);
	unsigned name = 0;
	while (name < sizeof names / sizeof *names &&
	       (strlen(names[name]) != length || strncmp(names[name], entry, length) != 0))
		name++;
	struct farpage_options *options = &settings->options;
	bool good = true;
	switch (name) {
	case 0:
		good = take_size(value, &options->local);
		break;
	case 1:
		good = take_donors(settings, value);
		break;
	case 2:
		good = take_text(settings, value, &options->key_file);
		break;
	case 3:
		good = take_number(value, &options->timeout_ms);
		break;
	case 4:
		good = take_number(value, &options->prefetch_pages);
		break;
	case 5:
		good = take_number(value, &options->spin_us);
		break;
	case 6:
		good = take_size(value, &options->window);
		break;
	case 7:
		good = take_text(settings, value, &settings->report);
		break;
	case 8:
		good = take_size(value, &settings->start_bytes);
		break;
	case 9:
		good = take_number(value, &options->replicas);
		break;
	case 10:
		good = take_size(value, &options->scrub_rate);
		break;
	case 11:
		good = take_flag(value, &options->encrypt);
		break;
	case 12:
		good = take_text(settings, value, &options->backup);
		break;
	case 13:
		good = take_flag(value, &options->unsafe_dio);
		break;
	case 14:
		good = take_flag(value, &settings->verbose);
		break;
	case 15:
		good = take_text(settings, value, &settings->donors_file);
		break;
	case 16:
		good = take_text(settings, value, &settings->user);
		break;
	default:
		break; /* a variable of another program of farpage */
	}
	if (!good)
		settings->wrong = names[name];
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
