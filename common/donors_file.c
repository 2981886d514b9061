/* donors_file: see donors_file.h. */
#include "common/donors_file.h"

#include "common/format.h"
#include "common/log.h"
#include "common/text_file.h"
#include "common/uri.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define BLANKS " \t\r"

static bool is_donor(const char *text)
{
	struct uri uri;

	return uri_parse(text, 0, &uri) == 0 && uri_is_donor(&uri);
}

static int line_take(struct donors_file *file, const char *path, unsigned number, char *line)
{
	size_t length;

	line[strcspn(line, "#")] = '\0';
	line += strspn(line, BLANKS);
	for (length = strlen(line); length && strchr(BLANKS, line[length - 1]); length--)
		line[length - 1] = '\0';
	if (!length)
		return 0;
	if (!is_donor(line)) {
		log_error("%s: line %u: \"%.200s\" is not a donor's address: write one donor a line, like "
			  "tcp://10.0.0.7",
			  path, number, line);
		return -EINVAL;
	}
	for (unsigned i = 0; i < file->count; i++) {
		if (strcmp(file->uris[i], line) != 0)
			continue;
		log_error("%s: line %u: %s is named in line %u already: remove one of the two lines", path, number,
			  line, file->lines[i]);
		return -EINVAL;
	}
	if (file->count == DONORS_FILE_DONORS) {
		log_error("%s: line %u: more than %u donors: remove some", path, number, DONORS_FILE_DONORS);
		return -EINVAL;
	}
	file->lines[file->count] = number;
	file->uris[file->count++] = line;
	return 0;
}

int donors_file_parse(struct donors_file *file, const char *path, size_t length)
{
	char *line = file->text, *end;
	unsigned number = 1;
	int error = 0;

	file->count = 0;
	file->length = length;
	if (length > DONORS_FILE_BYTES) {
		log_error("%s: larger than %u bytes: give a file of donors' addresses, one a line", path,
			  DONORS_FILE_BYTES);
		return -EINVAL;
	}
	for (; error == 0 && line < file->text + length; line = end + 1, number++) {
		end = memchr(line, '\n', (size_t)(file->text + length - line));
		if (!end)
			end = file->text + length;
		*end = '\0';
		if (strlen(line) != (size_t)(end - line)) {
			log_error("%s: line %u: it has a zero byte: give a text file", path, number);
			return -EINVAL;
		}
		error = line_take(file, path, number, line);
	}
	if (error == 0 && !file->count) {
		log_error("%s: line %u: the file ends and names no donor: write one a line, like tcp://10.0.0.7", path,
			  number);
		return -EINVAL;
	}
	return error;
}

int donors_file_read(const char *path, struct donors_file *ret_file)
{
	ssize_t length = text_file_read(path, ret_file->text, sizeof ret_file->text);

	ret_file->count = 0;
	if (length >= 0)
		return donors_file_parse(ret_file, path, (size_t)length);
	log_error("cannot read the donors file %s: %s; name a file of donors' addresses, one a line", path,
		  format_errno((int)length));
	return (int)length;
}
