/* group_file: see group_file.h. */
#include "common/group_file.h"

#include "common/ascii.h"
#include "common/format.h"
#include "common/text_file.h"

#include <errno.h>
#include <string.h>

int group_file_path(const char *folder, const char *file, char ret_path[PATH_MAX])
{
	return format_text(ret_path, PATH_MAX, "%s/%s", folder, file) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

ssize_t group_file_read(const char *folder, const char *file, char *ret_text, size_t size)
{
	char path[PATH_MAX];
	int status = group_file_path(folder, file, path);

	return status ? status : text_file_read(path, ret_text, size);
}

int group_file_number(const char *folder, const char *file, const char *word, uint64_t *ret_number)
{
	char text[4096];
	ssize_t length = group_file_read(folder, file, text, sizeof text);
	const char *at = length < 0 ? NULL : strstr(text, word);

	if (length < 0)
		return (int)length;
	if (!at)
		return -EINVAL;
	at += strlen(word);
	at += strspn(at, " ");
	const char *end = at;
	uint64_t number = ascii_number(&end);
	if (end == at && strncmp(at, "max", 3) != 0)
		return -EINVAL;
	*ret_number = end == at ? UINT64_MAX : number;
	return 0;
}

int group_file_write(const char *folder, const char *file, const char *text)
{
	char path[PATH_MAX];
	int status = group_file_path(folder, file, path);

	return status ? status : text_file_write(path, text);
}

int group_file_write_number(const char *folder, const char *file, uint64_t number)
{
	char text[24];

	format_text(text, sizeof text, "%llu\n", (unsigned long long)number);
	return group_file_write(folder, file, text);
}
