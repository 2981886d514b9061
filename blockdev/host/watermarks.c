#include "blockdev/host/watermarks.h"

#include "common/least.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "watermarks" /* in the device's folder */
#define FOLDER "/proc/sys/vm"
#define OTHERS_MAX 64
#define VALUE_MAX 1000000000u

/* Bounds of the kernel's own choice; see calculate_min_free_kbytes(). */
#define OWN_LEAST_KIB 128u
#define OWN_MOST_KIB (256u << 10)
#define MIN_SHARE 8u    /* the reserve is at most this fraction of memory */
#define SCALE_MOST 500u /* 5 %, because programs cannot use memory below the watermarks */

static const char *const files[] = {
    [WATERMARK_MIN] = "min_free_kbytes",
    [WATERMARK_SCALE] = "watermark_scale_factor",
};
static const char *const names[] = {
    [WATERMARK_MIN] = "vm.min_free_kbytes",
    [WATERMARK_SCALE] = "vm.watermark_scale_factor",
};
_Static_assert(sizeof files / sizeof files[0] == WATERMARKS && sizeof names / sizeof names[0] == WATERMARKS,
	       "a file and a name for each");

const char *watermark_name(enum watermark which)
{
	return names[which];
}

/* --- Needed values --------------------------------------------------------------------------------------- */

static uint64_t root_of(uint64_t square)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= square)
			root += bit;
	return root;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The reserve is the kernel's own choice, plus twice the bytes that the device may have in progress. Twice, because a
   task that may use the reserve gets about half of the reserve. The watermarks are as far apart as the number of bytes
   in progress. So kswapd has begun to write that many bytes before programs reach the reserve. */
struct watermarks watermarks_needed(uint64_t memory_kib, uint64_t flight_kib)
{
	uint64_t own = most(OWN_LEAST_KIB, least(root_of(memory_kib * 16), OWN_MOST_KIB));
	struct watermarks needed;

	memory_kib = most(memory_kib, 1);
	needed.at[WATERMARK_MIN] = most(own, least(own + 2 * flight_kib, memory_kib / MIN_SHARE));
	needed.at[WATERMARK_SCALE] = least((flight_kib * 10000 + memory_kib - 1) / memory_kib, SCALE_MOST);
	return needed;
}

/* Returns the value at a step (watermarks_lower()). */
static uint64_t value_at(const struct watermarks_record *record, enum watermark which, unsigned step)
{
	uint64_t found = record->found.at[which], set = record->set.at[which];

	return found < set ? set - (set - found) * step / WATERMARKS_STEPS : set;
}

static bool value_is_of(const struct watermarks_record *record, enum watermark which, uint64_t now)
{
	bool is = now == record->set.at[which];

	for (unsigned step = 1; step <= WATERMARKS_STEPS && which == WATERMARK_MIN; step++)
		is |= now == value_at(record, which, step);
	return is;
}

struct watermarks_record watermarks_plan(const struct watermarks *now, const struct watermarks *needed,
					 const struct watermarks_record *others, unsigned count)
{
	struct watermarks_record plan = {.found = *now};

	for (unsigned which = 0; which < WATERMARKS; which++) {
		const struct watermarks_record *highest = others;
		uint64_t found = 0, base = now->at[which];

		for (unsigned i = 0; i < count; i++) {
			highest = others[i].set.at[which] > highest->set.at[which] ? &others[i] : highest;
			found = most(found, others[i].found.at[which]);
		}
		/* If a daemon has set the present value, the other records have the value before the first device. The
		   new value must be at least the highest value that a daemon has set. Otherwise it would look like a
		   change by somebody else. The present value may be lower than the highest value set, because of
		   relief.h. */
		if (count && value_is_of(highest, (enum watermark)which, now->at[which])) {
			plan.found.at[which] = found;
			base = highest->set.at[which];
		}
		plan.set.at[which] = most(base, needed->at[which]);
	}
	return plan;
}

bool watermarks_undo(enum watermark which, const struct watermarks_record *own, uint64_t now,
		     const struct watermarks_record *others, unsigned count, uint64_t *ret_value)
{
	const struct watermarks_record *highest = own;
	uint64_t theirs = 0;

	for (unsigned i = 0; i < count; i++) {
		theirs = most(theirs, others[i].set.at[which]);
		highest = others[i].set.at[which] > highest->set.at[which] ? &others[i] : highest;
	}
	if (!value_is_of(highest, which, now))
		return false;
	*ret_value = most(theirs, own->found.at[which]);
	return true;
}

/* --- Records as text ------------------------------------------------------------------------------------- */

size_t watermarks_format(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX])
{
	size_t length = 0;

	for (unsigned which = 0; which < WATERMARKS; which++)
		length += (size_t)snprintf(ret_text + length, WATERMARKS_TEXT_MAX - length, "%s found %llu set %llu\n",
					   files[which], (unsigned long long)record->found.at[which],
					   (unsigned long long)record->set.at[which]);
	return length;
}

int watermarks_parse(const char *text, struct watermarks_record *ret_record)
{
	struct watermarks_record record;

	for (unsigned which = 0; which < WATERMARKS; which++) {
		unsigned long long found, set;
		size_t length = strlen(files[which]);
		int end = 0;

		if (strncmp(text, files[which], length) != 0 ||
		    sscanf(text + length, " found %10llu set %10llu%n", &found, &set, &end) != 2 ||
		    text[length + (size_t)end] != '\n' || found > VALUE_MAX || set > VALUE_MAX)
			return -EINVAL;
		record.found.at[which] = found;
		record.set.at[which] = set;
		text += length + (size_t)end + 1;
	}
	if (*text)
		return -EINVAL;
	*ret_record = record;
	return 0;
}

bool watermarks_changes(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX])
{
	size_t length = 0;

	ret_text[0] = '\0';
	for (unsigned which = 0; which < WATERMARKS; which++)
		if (record->set.at[which] != record->found.at[which])
			length += (size_t)snprintf(ret_text + length, WATERMARKS_TEXT_MAX - length, "%s%s %llu -> %llu",
						   length ? ", " : "", names[which],
						   (unsigned long long)record->found.at[which],
						   (unsigned long long)record->set.at[which]);
	return length > 0;
}

/* --- The kernel's files ---------------------------------------------------------------------------------- */

static int value_open(enum watermark which, int flags)
{
	const char *folder = secure_getenv("FARPAGE_SYSCTL_VM");
	char path[256];
	int fd;

	snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : FOLDER, files[which]);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int value_read(enum watermark which, uint64_t *ret_value)
{
	int fd = value_open(which, O_RDONLY);
	unsigned long long value;
	char text[32];
	ssize_t got;

	if (fd < 0)
		return fd;
	got = read(fd, text, sizeof text - 1);
	close(fd);
	if (got < 0)
		return -EIO;
	text[got] = '\0';
	if (sscanf(text, "%10llu", &value) != 1)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static int value_write(enum watermark which, uint64_t value)
{
	int fd = value_open(which, O_WRONLY | O_TRUNC), length, status = 0;
	char text[32];

	if (fd < 0)
		return fd;
	length = snprintf(text, sizeof text, "%llu\n", (unsigned long long)value);
	if (write(fd, text, (size_t)length) != length)
		status = errno ? -errno : -EIO;
	close(fd);
	return status;
}

int watermarks_read(struct watermarks *ret_now)
{
	struct watermarks now;
	int status = 0;

	for (unsigned which = 0; which < WATERMARKS && !status; which++)
		status = value_read((enum watermark)which, &now.at[which]);
	if (!status)
		*ret_now = now;
	return status;
}

bool watermarks_lower(const struct watermarks_record *record, unsigned before, unsigned step)
{
	uint64_t now;

	if (value_read(WATERMARK_MIN, &now) < 0 || now != value_at(record, WATERMARK_MIN, before))
		return false;
	return value_write(WATERMARK_MIN, value_at(record, WATERMARK_MIN, step)) == 0;
}

unsigned watermarks_step(const struct watermarks_record *record, unsigned most)
{
	uint64_t now;

	if (value_read(WATERMARK_MIN, &now) < 0)
		return 0;
	for (unsigned step = 0; step <= most; step++)
		if (now == value_at(record, WATERMARK_MIN, step))
			return step;
	return 0;
}

/* --- Devices --------------------------------------------------------------------------------------------- */

int watermarks_record_read(const char *name, struct watermarks_record *ret_record)
{
	char text[WATERMARKS_TEXT_MAX];
	ssize_t length = runtime_read(name, FILE_NAME, text, sizeof text);

	return length < 0 ? (int)length : watermarks_parse(text, ret_record);
}

static unsigned others_read(const char *name, struct watermarks_record others[OTHERS_MAX])
{
	static char names_there[OTHERS_MAX][RUNTIME_NAME_MAX + 1];
	int there = runtime_list(names_there, OTHERS_MAX);
	unsigned count = 0;

	for (int i = 0; i < there; i++)
		if (strcmp(names_there[i], name) != 0 && watermarks_record_read(names_there[i], &others[count]) == 0)
			count++;
	return count;
}

/* Writes the values that have changed. After an error, undoes the values already written, in reverse order. */
static int values_write(const struct watermarks *now, const struct watermarks *values)
{
	int status = 0;
	unsigned which;

	for (which = 0; which < WATERMARKS && !status; which++)
		if (values->at[which] != now->at[which])
			status = value_write((enum watermark)which, values->at[which]);
	if (!status)
		return 0;
	log_warning("%s cannot be set to %llu: %s; the machine keeps less memory free than far memory needs",
		    names[which - 1], (unsigned long long)values->at[which - 1], strerror(-status));
	while (--which > 0)
		if (values->at[which - 1] != now->at[which - 1])
			value_write((enum watermark)(which - 1), now->at[which - 1]);
	return status;
}

static int raise_locked(const struct runtime *runtime, const struct watermarks *needed)
{
	struct watermarks_record others[OTHERS_MAX], record;
	char text[WATERMARKS_TEXT_MAX];
	struct watermarks now;
	int status = watermarks_read(&now);

	if (status < 0) {
		log_warning("cannot read vm.min_free_kbytes and vm.watermark_scale_factor: %s", strerror(-status));
		return status;
	}
	record = watermarks_plan(&now, needed, others, others_read(runtime->name, others));
	/* Writes the record first. If the process dies before the values are written, watermarks_restore() finds other
	   values than those of the record, and leaves them. */
	status = runtime_write(runtime, FILE_NAME, text, watermarks_format(&record, text));
	if (status < 0)
		log_warning("cannot write %s/" FILE_NAME ": %s", runtime->folder, strerror(-status));
	else if ((status = values_write(&now, &record.set)) < 0)
		runtime_unlink(runtime, FILE_NAME);
	return status;
}

static void restore_locked(const struct runtime *runtime)
{
	struct watermarks_record others[OTHERS_MAX], own;
	struct watermarks now, values;
	unsigned count;

	if (watermarks_record_read(runtime->name, &own) < 0)
		return;
	count = others_read(runtime->name, others);
	if (watermarks_read(&now) == 0) {
		values = now;
		for (unsigned which = 0; which < WATERMARKS; which++)
			if (!watermarks_undo((enum watermark)which, &own, now.at[which], others, count,
					     &values.at[which]))
				log_warning("%s was changed by somebody else since, and stays %llu", names[which],
					    (unsigned long long)now.at[which]);
		values_write(&now, &values);
	}
	runtime_unlink(runtime, FILE_NAME);
}

int watermarks_raise(const struct runtime *runtime, const struct watermarks *needed)
{
	int lock = runtime_lock(), status;

	if (lock < 0)
		return lock;
	status = raise_locked(runtime, needed);
	close(lock);
	return status;
}

void watermarks_restore(const struct runtime *runtime)
{
	int lock = runtime_lock();

	if (lock < 0)
		return;
	restore_locked(runtime);
	close(lock);
}
