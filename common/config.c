/*
 * config: see config.h.
 *
 * Theory of operation. The command line and each file are sources of settings. The command line is the strongest source
 * and is read first. The files follow, from the strongest to the weakest. While a source is read, its `struct source`
 * has the current file and line for log lines. The struct also has two masks: the settings that this source has given,
 * and the settings of stronger sources, which must not be overwritten. A file of defaults is read twice: first for the
 * program's own section, then for the shared section, which is weaker. setting_take() checks and stores all values.
 *
 * libinih parses a file. It gets the lines from line_next(), which counts them. line_next() rejects lines that are
 * longer than libinih's buffer, because libinih would split them. line_next() also removes indentation, because libinih
 * would take an indented line as the continuation of the previous setting.
 *
 * Strings from the command line stay in argv. Strings from files, and items of lists, are allocated and never freed.
 *
 * Threads: the program's first thread, before others start.
 */
#include "common/config.h"

#include "common/log.h"
#include "common/size.h"
#include "common/suggest.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_SETTINGS_MAX 64
#define CONFIG_FILE_MAX ((size_t)1 << 20)
#define WHERE_MAX 512

struct source {
	const struct config_setting *settings;
	uint64_t stronger; /* bit i is set if a stronger source has given settings[i] */
	uint64_t given;    /* bit i is set if this source has given settings[i] */
	const char *file;
	unsigned line;
	const char *section, *text;             /* files: the section to read, and the unread rest of the text */
	const struct config_defaults *defaults; /* set if the file has sections of other programs, too */
	bool failed;
};

/* Returns the beginning of a log line: "--donate" or "FILE:LINE: donate". */
static const char *source_where(const struct source *source, const char *name, char where[WHERE_MAX])
{
	if (source->file)
		snprintf(where, WHERE_MAX, "%.400s:%u: %.64s", source->file, source->line, name);
	else
		snprintf(where, WHERE_MAX, "--%.64s", name);
	return where;
}

/* Returns the index of the setting @name, which has @length characters, or -1. */
static int setting_find(const struct config_setting *settings, const char *name, size_t length)
{
	for (int i = 0; settings[i].name; i++) {
		assert(i < CONFIG_SETTINGS_MAX);
		if (strlen(settings[i].name) == length && !memcmp(settings[i].name, name, length))
			return i;
	}
	return -1;
}

/* --- One value ------------------------------------------------------------------------------------------- */

static int flag_take(const struct config_setting *setting, const char *where, const char *text)
{
	bool yes = !strcmp(text, "yes");

	if (!yes && strcmp(text, "no")) {
		log_error("%s: '%.200s' is neither yes nor no", where, text);
		return -EINVAL;
	}
	*(bool *)setting->value = yes;
	return 0;
}

static int string_take(const struct config_setting *setting, const struct source *source, const char *where,
		       const char *text)
{
	if (!*text) {
		log_error("%s: nothing is given; write a %s", where, setting->argument ? setting->argument : "value");
		return -EINVAL;
	}
	const char *kept = source->file ? strdup(text) : text;
	if (!kept) {
		log_error("%s: out of memory", where);
		return -ENOMEM;
	}
	*(const char **)setting->value = kept;
	return 0;
}

static int range_complain(const struct config_setting *setting, const char *where, const char *text)
{
	char low[24], high[24];

	if (setting->kind == CONFIG_SIZE) {
		size_format(setting->min, low);
		size_format(setting->max, high);
	} else {
		snprintf(low, sizeof low, "%llu", (unsigned long long)setting->min);
		snprintf(high, sizeof high, "%llu", (unsigned long long)(setting->max ? setting->max : UINT_MAX));
	}
	if (setting->kind == CONFIG_SIZE && !setting->max)
		log_error("%s: '%.200s' is out of range; the least is %s", where, text, low);
	else
		log_error("%s: '%.200s' is out of range; it can be %s to %s", where, text, low, high);
	return -EINVAL;
}

static bool is_in_range(const struct config_setting *setting, uint64_t value)
{
	return value >= setting->min && (!setting->max || value <= setting->max);
}

static int size_take(const struct config_setting *setting, const char *where, const char *text)
{
	uint64_t bytes;
	int error = size_parse(text, &bytes);

	if (error == -EINVAL) {
		log_error("%s: '%.200s' is not a size; write it like 64M or 2G", where, text);
		return -EINVAL;
	}
	if (error == -ERANGE && !setting->max) {
		log_error("%s: '%.200s' is too large; the most is below 16E", where, text);
		return -EINVAL;
	}
	if (error || !is_in_range(setting, bytes))
		return range_complain(setting, where, text);
	*(uint64_t *)setting->value = bytes;
	return 0;
}

static int number_take(const struct config_setting *setting, const char *where, const char *text)
{
	uint64_t number = 0;
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits]) {
		log_error("%s: '%.200s' is not a number", where, text);
		return -EINVAL;
	}
	for (const char *at = text; *at && number <= UINT_MAX; at++)
		number = number * 10 + (unsigned)(*at - '0');
	if (number > UINT_MAX || !is_in_range(setting, number))
		return range_complain(setting, where, text);
	*(unsigned *)setting->value = (unsigned)number;
	return 0;
}

/* Appends the comma-separated items of @text to the list, without blanks around them. */
static int list_take(const struct config_setting *setting, const char *where, const char *text)
{
	struct config_list *list = setting->value;

	for (const char *at = text;;) {
		at += strspn(at, " \t");
		size_t length = strcspn(at, ","), kept = length;
		while (kept && isspace((unsigned char)at[kept - 1]))
			kept--;
		if (!kept) {
			log_error("%s: '%.200s' has an empty item; write one, or several with a comma between", where,
				  text);
			return -EINVAL;
		}
		if (list->count == CONFIG_LIST_MAX) {
			log_error("%s: more than %u are given", where, CONFIG_LIST_MAX);
			return -EINVAL;
		}
		char *item = strndup(at, kept);
		if (!item) {
			log_error("%s: out of memory", where);
			return -ENOMEM;
		}
		list->items[list->count++] = item;
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

/* Sets setting @index to @text. Returns 0, or -errno after logging one line. */
static int setting_take(struct source *source, unsigned index, const char *text)
{
	const struct config_setting *setting = &source->settings[index];
	char where[WHERE_MAX];

	source_where(source, setting->name, where);
	bool again = source->given >> index & 1;
	source->given |= (uint64_t)1 << index;
	switch (setting->kind) {
	case CONFIG_FLAG:
		return flag_take(setting, where, text);
	case CONFIG_STRING:
		return string_take(setting, source, where, text);
	case CONFIG_SIZE:
		return size_take(setting, where, text);
	case CONFIG_NUMBER:
		return number_take(setting, where, text);
	case CONFIG_LIST:
		if (!again) /* the first item replaces the list of a weaker source, and the default */
			((struct config_list *)setting->value)->count = 0;
		return list_take(setting, where, text);
	}
	assert(!"a kind of setting");
	return -EINVAL;
}

/* --- The file -------------------------------------------------------------------------------------------- */

/* Copies the next line to @line. libinih calls it in place of fgets(3). */
static char *line_next(char *line, int size, void *stream)
{
	struct source *source = stream;

	if (!*source->text || source->failed)
		return NULL;
	source->line++;
	const char *start = source->text, *end = start + strcspn(start, "\n");
	source->text = *end ? end + 1 : end;
	start += strspn(start, " \t\v\f\r");
	if (start > end)
		start = end;
	size_t length = (size_t)(end - start);
	if (length + 2 > (size_t)size) {
		log_error("%s:%u: the line is too long; the most is %d characters", source->file, source->line,
			  size - 2);
		source->failed = true;
		return NULL;
	}
	memcpy(line, start, length);
	memcpy(line + length, "\n", 2);
	return line;
}

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* Returns true if @section is allowed in the file, although the program is reading another section now. */
static bool section_is_others(const struct source *source, const char *section)
{
	const struct config_defaults *defaults = source->defaults;

	return defaults && (!strcmp(section, defaults->section) || is_among(section, defaults->others));
}

static bool section_is_shared(const struct source *source)
{
	return source->defaults && !strcmp(source->section, source->defaults->section);
}

/* Handles one "name = value" line. libinih calls it. Returns 1, or 0 after logging an error. */
static int line_take(void *user, const char *section, const char *name, const char *value)
{
	struct source *source = user;

	/* Cleared below if the line is valid. While `failed` is set, line_next() reports the end of the file. */
	source->failed = true;
	if (!*section) {
		log_error("%s:%u: '%.64s' stands before any section; write [%s] above it", source->file, source->line,
			  name, source->section);
		return 0;
	}
	if (strcmp(section, source->section)) {
		if (section_is_others(source, section)) {
			source->failed = false;
			return 1;
		}
		log_error("%s:%u: [%s] is not a section of this file; write [%s]", source->file, source->line, section,
			  source->section);
		return 0;
	}
	int index = setting_find(source->settings, name, strlen(name));
	if (section_is_shared(source) && !is_among(name, source->defaults->shared)) {
		log_error("%s:%u: '%.64s' is not a setting of [%s]; write it under a verb's section, as [run]",
			  source->file, source->line, name, section);
		return 0;
	}
	if (index < 0 && section_is_shared(source)) {
		source->failed = false;
		return 1;
	}
	if (index < 0) {
		log_error("%s:%u: unknown setting '%.64s'; --help names all of them", source->file, source->line, name);
		return 0;
	}
	if (source->given >> index & 1 && source->settings[index].kind != CONFIG_LIST) {
		log_error("%s:%u: %s: it is set twice; leave one", source->file, source->line, name);
		return 0;
	}
	if (source->stronger >> index & 1) {
		source->failed = false;
		return 1;
	}
	source->failed = setting_take(source, (unsigned)index, value) < 0;
	return !source->failed;
}

static int text_read(struct source *source)
{
	int bad_line = ini_parse_stream(line_next, source, line_take, source);

	if (source->failed)
		return -EINVAL;
	if (bad_line) {
		log_error("%s:%d: neither a [section] nor a 'name = value'", source->file, bad_line);
		return -EINVAL;
	}
	return 0;
}

/* The caller frees the text. Returns 0, or -errno after logging one line. */
static int file_load(int fd, const char *path, char **ret_text)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode)) {
		log_error("%s: not a regular file", path);
		return -EINVAL;
	}
	if (stat.st_size > (off_t)CONFIG_FILE_MAX) {
		log_error("%s: too large for a configuration file", path);
		return -EFBIG;
	}
	size_t size = (size_t)stat.st_size, have = 0;
	char *text = malloc(size + 1);
	if (!text) {
		log_error("%s: out of memory", path);
		return -ENOMEM;
	}
	while (have < size) {
		ssize_t got = read(fd, text + have, size - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int error = -errno;

			log_error("%s: cannot be read: %s", path, strerror(-error));
			free(text);
			return error;
		}
		if (!got)
			break;
		have += (size_t)got;
	}
	text[have] = '\0';
	if (strlen(text) != have) {
		log_error("%s: not a text file", path);
		free(text);
		return -EINVAL;
	}
	*ret_text = text;
	return 0;
}

/* Rejects a file of defaults that another user can change: this user could otherwise send the caller's pages to
   another donor. */
static int file_check_owner(int fd, const char *path)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		return -errno;
	if (stat.st_uid && stat.st_uid != geteuid())
		log_error("%s: belongs to another user, so it is not read; chown it, or name another with --config",
			  path);
	else if (stat.st_mode & (S_IWGRP | S_IWOTH))
		log_error("%s: others can write it, so it is not read; chmod go-w it", path);
	else
		return 0;
	return -EPERM;
}

/* The caller frees the text. The text is NULL if the file is missing and @defaults allows that. @defaults is NULL for a
   file that the command line names. */
static int file_text(const char *path, const struct config_defaults *defaults, char **ret_text)
{
	*ret_text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && defaults && !defaults->wanted && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0) {
		int error = -errno;

		log_error("%s: cannot be opened: %s", path, strerror(-error));
		return error;
	}
	int error = defaults ? file_check_owner(fd, path) : 0;
	if (!error)
		error = file_load(fd, path, ret_text);
	close(fd);
	return error;
}

static int file_read(struct source *source, const char *path)
{
	char *text;
	int error = file_text(path, NULL, &text);

	if (error)
		return error;
	source->file = path;
	source->text = text;
	error = text_read(source);
	free(text);
	return error;
}

int config_read_text(const struct config_setting *settings, const char *section, const char *name, const char *text)
{
	struct source source = {.settings = settings, .section = section, .file = name, .text = text};

	return text_read(&source);
}

/* --- The command line ------------------------------------------------------------------------------------ */

static void option_unknown(const struct config_setting *settings, const char *option, size_t length,
			   const char *file_name)
{
	char word[SUGGEST_MAX + 1], text[SUGGEST_TEXT_MAX];
	struct suggestion near = {.word = word};

	if (length > SUGGEST_MAX)
		length = SUGGEST_MAX;
	memcpy(word, option, length);
	word[length] = '\0';
	for (const struct config_setting *setting = settings; setting->name; setting++)
		suggest_consider(&near, setting->name);
	if (file_name)
		suggest_consider(&near, file_name);
	suggest_consider(&near, "help");
	log_error("--%s: unknown option%s; --help names all of them", word, suggest_format(&near, "--", text));
}

/* Handles the option @argument, which is "name" or "name=value", without its dashes. @next is the next argument,
   which may be its value. Returns how many arguments it has used, or -errno after logging one line. */
static int option_take(struct source *source, const char *argument, const char *next, const char *file_name,
		       const char **file)
{
	size_t length = strcspn(argument, "=");
	const char *value = argument[length] ? argument + length + 1 : NULL;
	bool is_file = file_name && strlen(file_name) == length && !memcmp(file_name, argument, length);
	int index = setting_find(source->settings, argument, length), taken = 1;

	if (index < 0 && !is_file) {
		option_unknown(source->settings, argument, length, file_name);
		return -EINVAL;
	}
	const struct config_setting *setting = index < 0 ? NULL : &source->settings[index];
	if (!value && setting && setting->kind == CONFIG_FLAG) {
		value = "yes";
	} else if (!value) {
		/* An argument that begins with "--" is an option, not a value. A value that begins with "--" must be
		   written --name=--value. */
		if (!next || !strncmp(next, "--", 2)) {
			const char *what = setting ? setting->argument : "FILE";

			log_error("--%s: its %s is missing; see --help", argument, what ? what : "value");
			return -EINVAL;
		}
		value = next;
		taken = 2;
	}
	if (is_file)
		*file = value;
	int error = setting ? setting_take(source, (unsigned)index, value) : 0;
	return error ? error : taken;
}

/* Writes the value of @file_option to *ret_file, if it is given. Returns the same as config_read(). */
static int options_read(struct source *options, int argc, char **argv, const char *file_option, const char **ret_file)
{
	const char *file_name = file_option ? file_option + strspn(file_option, "-") : NULL;
	int at = 1;

	while (at < argc && argv[at][0] == '-' && argv[at][1]) {
		if (!strcmp(argv[at], "--")) {
			at++;
			break;
		}
		if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h"))
			return -ECANCELED;
		if (!strcmp(argv[at], "-V") && setting_find(options->settings, "version", strlen("version")) >= 0) {
			option_take(options, "version", NULL, NULL, NULL);
			at++;
			continue;
		}
		if (argv[at][1] != '-') {
			log_error("%.64s: unknown option; --help names all of them", argv[at]);
			return -EINVAL;
		}
		int taken = option_take(options, argv[at] + 2, argv[at + 1], file_name, ret_file);
		if (taken < 0)
			return -EINVAL;
		at += taken;
	}
	return at;
}

/* Reads one file of @defaults. *given is the mask of settings given so far. */
static int defaults_read(const struct config_setting *settings, const char *section,
			 const struct config_defaults *defaults, const char *path, uint64_t *given)
{
	const char *sections[] = {section, defaults->section};
	char *text;
	int error = file_text(path, defaults, &text);

	for (unsigned i = 0; text && !error && i < 2; i++) {
		struct source source = {.settings = settings,
					.section = sections[i],
					.defaults = defaults,
					.stronger = *given,
					.file = path,
					.text = text};

		if (!sections[i])
			continue;
		error = text_read(&source);
		*given |= source.given;
	}
	free(text);
	return error;
}

int config_read_defaults(const struct config_setting *settings, const char *section,
			 const struct config_defaults *defaults, int argc, char **argv, const char *file_option)
{
	struct source options = {.settings = settings};
	const char *file = NULL;
	int at = options_read(&options, argc, argv, file_option, &file);

	if (at < 0)
		return at;
	if (file) {
		struct source source = {.settings = settings, .section = section, .stronger = options.given};

		return file_read(&source, file) < 0 ? -EINVAL : at;
	}
	uint64_t given = options.given;
	for (unsigned i = 0; defaults && i < sizeof defaults->paths / sizeof *defaults->paths; i++)
		if (defaults->paths[i] && defaults_read(settings, section, defaults, defaults->paths[i], &given) < 0)
			return -EINVAL;
	return at;
}

int config_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		const char *file_option)
{
	return config_read_defaults(settings, section, NULL, argc, argv, file_option);
}

int config_absolute_path(const char *path, char ret_path[PATH_MAX])
{
	char here[PATH_MAX] = "";

	if (*path != '/' && !getcwd(here, sizeof here))
		return -errno;
	return snprintf(ret_path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int config_complete_path(const char *option, const char **path)
{
	char whole[PATH_MAX], *copy;
	int status;

	if (!*path || **path == '/')
		return 0;
	status = config_absolute_path(*path, whole);
	copy = status < 0 ? NULL : strdup(whole);
	if (!copy) {
		log_error("--%s %s: %s; give a whole path", option, *path, strerror(status < 0 ? -status : ENOMEM));
		return -EINVAL;
	}
	*path = copy;
	return 0;
}
