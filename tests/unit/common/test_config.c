/* config: reads settings from the command line and from a file. Each mistake logs one exact line and returns -errno. */
#include "common/config.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool insecure;
static const char *key;
static uint64_t donate, slab;
static unsigned clients, depth;
static struct config_list listen_on;

static const struct config_setting settings[] = {
    {"insecure", CONFIG_FLAG, &insecure, 0, 0, NULL, "listen without a key"},
    {"key", CONFIG_STRING, &key, 0, 0, "FILE", "the key file"},
    {"donate", CONFIG_SIZE, &donate, 64 << 20, 1ull << 40, "SIZE", "memory to lend"},
    {"slab", CONFIG_SIZE, &slab, 4096, 0, "SIZE", "size of a slab"},
    {"clients", CONFIG_NUMBER, &clients, 1, 1024, "NUMBER", "most clients"},
    {"depth", CONFIG_NUMBER, &depth, 0, 0, "NUMBER", "operations in flight"},
    {"listen", CONFIG_LIST, &listen_on, 0, 0, "URI", "address to listen on"},
    {.name = NULL},
};

static int pipe_read;
static char logged[1 << 14];

static void reset(void)
{
	for (unsigned i = 0; i < listen_on.count; i++)
		free((void *)(uintptr_t)listen_on.items[i]);
	insecure = false;
	key = NULL;
	donate = slab = 0;
	clients = depth = 0;
	memset(&listen_on, 0, sizeof listen_on);
}

static const char *take_log(void)
{
	ssize_t count = read(pipe_read, logged, sizeof logged - 1);

	logged[count > 0 ? count : 0] = '\0';
	return logged;
}

/* Reads a command line. Returns what config_read() returns. */
#define READ(...) read_options((const char *[]){"test", __VA_ARGS__, NULL})

static int read_options(const char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	reset();
	return config_read(settings, "farpage-memserver", argc, (char **)(uintptr_t)argv, "--config");
}

static int read_text(const char *text)
{
	reset();
	return config_read_text(settings, "farpage-memserver", "test.conf", text);
}

#define LOGGED(line) (!strcmp(take_log(), "farpage-memserver: " line "\n"))

static void the_command_line_sets_settings_of_each_kind(void)
{
	ok(READ(NULL) == 1 && !*take_log(), "a command line without options sets nothing");
	ok(READ("--donate", "2G", "--insecure", "--key=k", "--clients", "7") == 7 && donate == 2ull << 30 && insecure &&
	       !strcmp(key, "k") && clients == 7 && !*take_log(),
	   "options of each kind are read from the command line");
	ok(READ("--insecure=no") == 2 && !insecure, "a flag takes the value \"no\" after =");
	ok(READ("--insecure", "command", "--donate") == 2 && !*take_log(),
	   "reading ends at the first argument that is no option");
	ok(READ("--insecure", "--", "--donate") == 3 && !*take_log(), "reading ends after the argument --");
	ok(READ("-", "x") == 1 && !*take_log(), "the argument - is no option");
	ok(READ("--clients", "7", "--clients", "8") == 5 && clients == 8, "the last of two values of an option counts");
	ok(READ("--listen", "a", "--listen", "b, c") == 5 && listen_on.count == 3 && !strcmp(listen_on.items[0], "a") &&
	       !strcmp(listen_on.items[1], "b") && !strcmp(listen_on.items[2], "c"),
	   "a list collects the items of repeated options and of values with commas");
	ok(READ("--insecure", "--help") == -ECANCELED && READ("-h") == -ECANCELED && !*take_log(),
	   "--help and -h return -ECANCELED");
	ok(READ("--key=--help") == 2 && !strcmp(key, "--help"), "a value after = may look like an option");
}

static void mistaken_options_are_refused_with_one_exact_line(void)
{
	ok(READ("--donate", "12Q") == -EINVAL && LOGGED("--donate: '12Q' is not a size; write it like 64M or 2G"),
	   "an option's value that is no size is refused");
	ok(READ("--donate", "0") == -EINVAL && LOGGED("--donate: '0' is out of range; it can be 64M to 1T"),
	   "a size of 0 is refused as out of range");
	ok(READ("--donate", "2T") == -EINVAL && LOGGED("--donate: '2T' is out of range; it can be 64M to 1T"),
	   "a size above its upper bound is refused as out of range");
	ok(READ("--donate", "99E") == -EINVAL && LOGGED("--donate: '99E' is out of range; it can be 64M to 1T"),
	   "a size beyond 64 bits is refused as out of range");
	ok(READ("--slab", "1K") == -EINVAL && LOGGED("--slab: '1K' is out of range; the least is 4096"),
	   "a size below its only bound is refused with the least size");
	ok(READ("--slab", "16E") == -EINVAL && LOGGED("--slab: '16E' is too large; the most is below 16E"),
	   "a size beyond 64 bits without an upper bound is refused as too large");
	ok(READ("--clients", "0") == -EINVAL && LOGGED("--clients: '0' is out of range; it can be 1 to 1024"),
	   "a number below its range is refused");
	ok(READ("--depth", "4294967296") == -EINVAL &&
	       LOGGED("--depth: '4294967296' is out of range; it can be 0 to 4294967295"),
	   "a number beyond 32 bits is refused");
	ok(READ("--depth", "99999999999999999999999999999999") == -EINVAL && take_log()[0],
	   "a number far beyond 64 bits is refused");
	ok(READ("--clients", "-1") == -EINVAL && LOGGED("--clients: '-1' is not a number"),
	   "a negative number is refused");
	ok(READ("--clients", "") == -EINVAL && LOGGED("--clients: '' is not a number"), "an empty number is refused");
	ok(READ("--clients", "7x") == -EINVAL && LOGGED("--clients: '7x' is not a number"),
	   "a number with a letter behind it is refused");
	ok(READ("--insecure=maybe") == -EINVAL && LOGGED("--insecure: 'maybe' is neither yes nor no"),
	   "a flag's value other than yes and no is refused");
	ok(READ("--key", "") == -EINVAL && LOGGED("--key: nothing is given; write a FILE"),
	   "an empty string is refused");
	ok(READ("--listen", "a,,b") == -EINVAL &&
	       LOGGED("--listen: 'a,,b' has an empty item; write one, or several with a comma between"),
	   "a list with an empty item is refused");
	ok(READ("--donte", "1G") == -EINVAL &&
	       LOGGED("--donte: unknown option (did you mean --donate?); --help names all of them"),
	   "an unknown option is refused");
	ok(READ("--don=1G") == -EINVAL && LOGGED("--don: unknown option; --help names all of them"),
	   "an abbreviated option is refused");
	ok(READ("-d", "1G") == -EINVAL && LOGGED("-d: unknown option; --help names all of them"),
	   "an option with one dash is refused");
	ok(READ("--=x") == -EINVAL && LOGGED("--: unknown option; --help names all of them"),
	   "an option without a name is refused");
	ok(READ("--donate") == -EINVAL && LOGGED("--donate: its SIZE is missing; see --help"),
	   "an option without its value at the end of the command line is refused");
	ok(READ("--key", "--insecure") == -EINVAL && LOGGED("--key: its FILE is missing; see --help"),
	   "an option without its value before another option is refused");
	ok(READ("--config") == -EINVAL && LOGGED("--config: its FILE is missing; see --help"),
	   "--config without its file name is refused");
}

static void a_list_takes_a_bounded_number_of_items(void)
{
	char text[3 * CONFIG_LIST_MAX + 8] = "a";

	for (unsigned i = 1; i < CONFIG_LIST_MAX; i++)
		strcat(text, ",a");
	ok(READ("--listen", text) == 3 && listen_on.count == CONFIG_LIST_MAX, "a list takes CONFIG_LIST_MAX items");
	strcat(text, ",a");
	ok(READ("--listen", text) == -EINVAL && LOGGED("--listen: more than 1024 are given"),
	   "a list of more than CONFIG_LIST_MAX items is refused");
}

static void free_key(void)
{
	free((void *)(uintptr_t)key);
	key = NULL;
}

static void a_file_sets_settings_of_each_kind(void)
{
	ok(read_text("") == 0 && !*take_log(), "an empty file is accepted");
	ok(read_text("# a sample\n\n[farpage-memserver]\n; memory\ndonate = 2G ; lots\ninsecure=yes\r\n"
		     "  clients = 5\n\tkey = /etc/a key\nlisten = a, b\nlisten = c") == 0 &&
	       donate == 2ull << 30 && insecure && clients == 5 && !strcmp(key, "/etc/a key") && listen_on.count == 3 &&
	       !strcmp(listen_on.items[2], "c") && !*take_log(),
	   "a file may hold settings of each kind, comments, indentation and CRLF line ends");
	free_key();
}

static void mistakes_in_a_file_are_refused_with_file_and_line(void)
{
	ok(read_text("[farpage-memserver]\n\ndonate = 12Q\n") == -EINVAL &&
	       LOGGED("test.conf:3: donate: '12Q' is not a size; write it like 64M or 2G"),
	   "a file's value that is no size is refused with file and line");
	ok(read_text("[farpage-memserver]\n# x\ndonat = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:3: unknown setting 'donat'; --help names all of them"),
	   "a file's unknown setting is refused with file and line");
	ok(read_text("[farpage-memserver]\nclients = 2000") == -EINVAL &&
	       LOGGED("test.conf:2: clients: '2000' is out of range; it can be 1 to 1024"),
	   "a file's number out of range is refused with file and line");
	ok(read_text("donate = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:1: 'donate' stands before any section; write [farpage-memserver] above it"),
	   "a file's setting before any section is refused");
	ok(read_text("[memserver]\ndonate = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:2: [memserver] is not a section of this file; write [farpage-memserver]"),
	   "a file's section of another name is refused");
	ok(read_text("[farpage-memserver]\ndonate = 1G\ndonate = 2G\n") == -EINVAL &&
	       LOGGED("test.conf:3: donate: it is set twice; leave one"),
	   "a file's setting that is set twice is refused");
	ok(read_text("[farpage-memserver]\ninsecure\n") == -EINVAL &&
	       LOGGED("test.conf:2: neither a [section] nor a 'name = value'"),
	   "a file's line that is neither section nor setting is refused");
	ok(read_text("[farpage-memserver\n") == -EINVAL &&
	       LOGGED("test.conf:1: neither a [section] nor a 'name = value'"),
	   "a file's section without its closing bracket is refused");
	ok(read_text("[farpage-memserver]\nkey =\n") == -EINVAL &&
	       LOGGED("test.conf:2: key: nothing is given; write a FILE"),
	   "a file's empty value is refused");
	ok(read_text("[farpage-memserver]\ndonate = x\nslab = y\nclients = z\n") == -EINVAL &&
	       LOGGED("test.conf:2: donate: 'x' is not a size; write it like 64M or 2G"),
	   "a file with several mistakes logs only the first");
}

static void an_overlong_line_is_refused_as_one_mistake(void)
{
	static char text[5000] = "[farpage-memserver]\nkey = ";
	size_t start = strlen(text);

	memset(text + start, 'x', sizeof text - 1 - start);
	int error = read_text(text);
	const char *line = take_log();
	ok(error == -EINVAL && strstr(line, "test.conf:2: the line is too long; the most is ") &&
	       strchr(line, '\n') == line + strlen(line) - 1,
	   "an overlong line of a file is refused with one log line");
	ok(!key, "an overlong line of a file sets nothing");
}

static void the_command_line_overrides_the_file(void)
{
	const char *path = folder_path("file");
	char expected[256];
	FILE *file;

	folder_put("file", "[farpage-memserver]\ndonate = 3G\nclients = 9\nlisten = f1\nlisten = f2\n");
	ok(READ("--config", path) == 3 && donate == 3ull << 30 && clients == 9 && listen_on.count == 2,
	   "--config reads the settings of its file");
	char option[64];
	snprintf(option, sizeof option, "--config=%s", path);
	ok(READ("--donate", "1G", "--listen", "c", option, "x") == 6 && donate == 1ull << 30 && clients == 9 &&
	       listen_on.count == 1 && !strcmp(listen_on.items[0], "c"),
	   "the command line overrides the file in any order, and the file sets the rest");
	ok(!*take_log(), "a good file and a good command line log nothing");
	folder_put("file", "[farpage-memserver]\nclients = none\n");
	ok(READ("--config", path) == -EINVAL, "a mistake in the file of --config is refused");
	snprintf(expected, sizeof expected, "farpage-memserver: %s:2: clients: 'none' is not a number\n", path);
	ok(!strcmp(take_log(), expected), "a mistake in the file of --config is logged with file and line");
	folder_put("file", "[farpage-memserver]\n@clients = 1\n");
	file = fopen(path, "r+e");
	fseek(file, strlen("[farpage-memserver]\n"), SEEK_SET);
	fputc('\0', file);
	fclose(file);
	ok(READ("--config", path) == -EINVAL, "a file with a zero byte is refused");
	snprintf(expected, sizeof expected, "farpage-memserver: %s: not a text file\n", path);
	ok(!strcmp(take_log(), expected), "a file with a zero byte is logged as no text file");
	unlink(path);
	ok(READ("--config", path) == -EINVAL, "a missing file is refused");
	snprintf(expected, sizeof expected, "farpage-memserver: %s: cannot be opened: No such file or directory\n",
		 path);
	ok(!strcmp(take_log(), expected), "a missing file is named in the log");
	ok(READ("--config", "/") == -EINVAL && LOGGED("/: not a regular file"),
	   "a directory is refused as no regular file");
	ok(READ("--config", path, "--bogus") == -EINVAL && LOGGED("--bogus: unknown option; --help names all of them"),
	   "an unknown option and a missing file log only one line");
}

static void the_help_shows_each_setting_on_one_line(void)
{
	char text[2048] = "";
	FILE *file = tmpfile();
	int saved = dup(STDOUT_FILENO);

	if (!file || saved < 0)
		abort();
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	config_help(settings);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	ok(strstr(text, "  --donate SIZE     memory to lend\n") &&
	       strstr(text, "  --insecure        listen without a key\n") &&
	       strstr(text, "  --clients NUMBER  most clients\n"),
	   "the help shows each setting on one line, in columns");
}

int main(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return tap_skip_all("no pipe");
	unsetenv("JOURNAL_STREAM");
	pipe_read = ends[0];
	log_set_fd(ends[1]);
	log_setup("farpage-memserver", LOG_LEVEL_WARNING);
	the_command_line_sets_settings_of_each_kind();
	mistaken_options_are_refused_with_one_exact_line();
	a_list_takes_a_bounded_number_of_items();
	a_file_sets_settings_of_each_kind();
	mistakes_in_a_file_are_refused_with_file_and_line();
	an_overlong_line_is_refused_as_one_mistake();
	the_command_line_overrides_the_file();
	the_help_shows_each_setting_on_one_line();
	reset();
	return tap_done();
}
