/* Unit tests of common/donors_file and common/donors_option: each bad file is refused with one line. */
#include "common/donors_file.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct donors_file file;
static int log_read;
static char logged[4096];

static const char *take_log(void)
{
	ssize_t count = read(log_read, logged, sizeof logged - 1);

	logged[count > 0 ? count : 0] = '\0';
	return logged;
}

static int parse_bytes(const char *text, size_t length)
{
	memcpy(file.text, text, length);
	file.text[length] = '\0';
	return donors_file_parse(&file, "f", length);
}

static int parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

/* Checks that @text is refused, and that the only log line is "farpage: f: " and @line. */
static void refused(const char *text, const char *line, const char *name)
{
	char wanted[512];
	int status = parse(text);

	snprintf(wanted, sizeof wanted, "farpage: f: %s\n", line);
	ok(status == -EINVAL && !strcmp(take_log(), wanted), "%s", name);
	if (strcmp(logged, wanted) != 0)
		printf("# %s", logged);
}

static void a_file_names_one_donor_a_line(void)
{
	ok(parse("tcp://a\nrdma://10.0.0.7:1\nauto://[fe80::1%eth0]\n") == 0 && file.count == 3 &&
	       !strcmp(file.uris[1], "rdma://10.0.0.7:1") && file.lines[2] == 3,
	   "each line of a donors file names a donor");
	ok(parse("# all\n\n \t\r\n  tcp://a \t# rack 1\r\ntcp://b") == 0 && file.count == 2 &&
	       !strcmp(file.uris[0], "tcp://a") && !strcmp(file.uris[1], "tcp://b") && file.lines[1] == 5,
	   "comments, blanks and blank lines are left out, and the last line needs no line break");
}

static void bad_lines_are_refused(void)
{
	refused("tcp://a\nb\n", "line 2: \"b\" is not a donor's address: write one donor a line, like tcp://10.0.0.7",
		"a line that is no address is refused");
	refused("http://a\n",
		"line 1: \"http://a\" is not a donor's address: write one donor a line, like tcp://10.0.0.7",
		"an address of another scheme is refused");
	refused("tcp://a, tcp://b\n",
		"line 1: \"tcp://a, tcp://b\" is not a donor's address: write one donor a line, like tcp://10.0.0.7",
		"two donors in one line are refused");
	refused("\ntcp://a\n#\ntcp://a\n", "line 4: tcp://a is named in line 2 already: remove one of the two lines",
		"a donor that is named twice is refused");
	refused("# none\n", "line 2: the file ends and names no donor: write one a line, like tcp://10.0.0.7",
		"a file without donors is refused");
	refused("", "line 1: the file ends and names no donor: write one a line, like tcp://10.0.0.7",
		"an empty file is refused");
	ok(parse_bytes("tcp://a\ntc\0://b\n", 16) == -EINVAL &&
	       !strcmp(take_log(), "farpage: f: line 2: it has a zero byte: give a text file\n"),
	   "a file with a zero byte is refused");
}

static void large_files_are_refused(void)
{
	static char text[DONORS_FILE_BYTES + 2];
	size_t length = 0;

	for (unsigned i = 0; i < DONORS_FILE_DONORS; i++)
		length += (size_t)sprintf(text + length, "tcp://h%u\n", i);
	ok(parse(text) == 0 && file.count == DONORS_FILE_DONORS, "a file may name 1024 donors");
	strcpy(text + length, "tcp://more\n");
	refused(text, "line 1025: more than 1024 donors: remove some", "a file of 1025 donors is refused");
	memset(text, '#', DONORS_FILE_BYTES + 1);
	ok(parse_bytes(text, DONORS_FILE_BYTES + 1) == -EINVAL && strstr(take_log(), "larger than 131072 bytes"),
	   "a file that is too large is refused");
}

static void a_file_is_read_by_its_name(void)
{
	ok(donors_file_read("/none/donors", &file) == -ENOENT &&
	       !strcmp(take_log(), "farpage: cannot read the donors file /none/donors: No such file or directory; "
				   "name a file of donors' addresses, one a line\n"),
	   "a missing donors file is refused");
	ok(donors_file_read("/proc/self", &file) == -EISDIR && *take_log(), "a folder is refused");
}

static void an_option_is_expanded(void)
{
	int fd = memfd_create("donors", MFD_CLOEXEC);
	struct config_list list = {.items = {"tcp://a", "tcp://b"}, .count = 2};
	const char *path = "x";
	char name[64];

	ok(donors_option_expand(&list, &path) == 0 && !path && list.count == 2, "donors named one by one stay");
	list.items[1] = "@f";
	ok(donors_option_expand(&list, &path) == -EINVAL && !path &&
	       !strcmp(take_log(), "farpage: --donor @f: a donors file stands alone; write the other donors into it\n"),
	   "a donors file besides other donors is refused");
	ok(write(fd, "tcp://a\ntcp://b\ntcp://c\n", 24) == 24, "a donors file is written");
	snprintf(name, sizeof name, "@/proc/self/fd/%d", fd);
	list = (struct config_list){.items = {name}, .count = 1};
	ok(donors_option_expand(&list, &path) == 0 && path && !strcmp(path, name + 1) && list.count == 3 &&
	       !strcmp(list.items[2], "tcp://c"),
	   "@FILE becomes the donors of the file");
	free((void *)(uintptr_t)path);
	free((char *)(uintptr_t)list.items[0] - offsetof(struct donors_file, text));
	snprintf(name, sizeof name, "@../proc/self/fd/%d", fd);
	list = (struct config_list){.items = {name}, .count = 1};
	ok(chdir("/tmp") == 0 && donors_option_expand(&list, &path) == 0 && !strncmp(path, "/tmp/../proc/", 13),
	   "a relative path is taken from the current directory");
	free((void *)(uintptr_t)path);
	free((char *)(uintptr_t)list.items[0] - offsetof(struct donors_file, text));
	close(fd);
}

int main(void)
{
	int pipes[2];

	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC) < 0)
		tap_bail("no pipe");
	log_read = pipes[0];
	log_set_fd(pipes[1]);
	a_file_names_one_donor_a_line();
	bad_lines_are_refused();
	large_files_are_refused();
	a_file_is_read_by_its_name();
	an_option_is_expanded();
	return tap_done();
}
