/* Fuzzes the reader of configuration files. Values stay within their bounds. A refusal logs exactly one line. */
#include "common/config.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the number of lines in the log, and empties the log. */
static unsigned take_lines(int fd)
{
	static char text[1 << 16];
	ssize_t size = pread(fd, text, sizeof text, 0);
	unsigned lines = 0;

	for (ssize_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	if (size < 0 || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
		abort();
	return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int log_fd = -1;
	bool flag = false;
	const char *string = NULL;
	uint64_t bytes = 4096;
	unsigned number = 1;
	struct config_list list = {.count = 0};
	const struct config_setting settings[] = {
	    {"flag", CONFIG_FLAG, &flag, 0, 0, NULL, ""},
	    {"string", CONFIG_STRING, &string, 0, 0, "TEXT", ""},
	    {"size", CONFIG_SIZE, &bytes, 4096, 1u << 30, "SIZE", ""},
	    {"number", CONFIG_NUMBER, &number, 1, 100, "NUMBER", ""},
	    {"list", CONFIG_LIST, &list, 0, 0, "ITEM", ""},
	    {.name = NULL},
	};

	if (log_fd < 0) {
		log_fd = memfd_create("log", MFD_CLOEXEC);
		log_set_fd(log_fd);
	}
	char *text = malloc(size + 1);
	if (log_fd < 0 || !text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	int error = config_read_text(settings, "program", "fuzz.conf", text);
	if (error > 0 || take_lines(log_fd) != (error ? 1 : 0))
		abort();
	if (bytes < 4096 || bytes > 1u << 30 || number < 1 || number > 100 || list.count > CONFIG_LIST_MAX ||
	    (string && !*string))
		abort();
	for (unsigned i = 0; i < list.count; i++) {
		if (!*list.items[i])
			abort();
		free((void *)(uintptr_t)list.items[i]);
	}
	free((void *)(uintptr_t)string);
	free(text);
	return 0;
}
