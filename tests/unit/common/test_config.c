/* config: settings from command line and file; each mistake is one exact line and a negative return. */
#include "common/config.h"
#include "common/log.h"
#include "tests/tap.h"
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

/* Reads a command line. */
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

static void test_options(void)
{
	ok(READ(NULL) == 1 && !*take_log(), "no options");
	ok(READ("--donate", "2G", "--insecure", "--key=k", "--clients", "7") == 7 && donate == 2ull << 30 && insecure &&
	       !strcmp(key, "k") && clients == 7 && !*take_log(),
	   "options of each kind");
	ok(READ("--insecure=no") == 2 && !insecure, "a flag can be denied");
	ok(READ("--insecure", "command", "--donate") == 2 && !*take_log(), "up to the first that is no option");
	ok(READ("--insecure", "--", "--donate") == 3 && !*take_log(), "up to --, which is taken");
	ok(READ("-", "x") == 1 && !*take_log(), "- is no option");
	ok(READ("--clients", "7", "--clients", "8") == 5 && clients == 8, "the last one counts");
	ok(READ("--listen", "a", "--listen", "b, c") == 5 && listen_on.count == 3 && !strcmp(listen_on.items[0], "a") &&
	       !strcmp(listen_on.items[1], "b") && !strcmp(listen_on.items[2], "c"),
	   "a list, one by one and with commas");
	ok(READ("--insecure", "--help") == -ECANCELED && READ("-h") == -ECANCELED && !*take_log(), "--help is told");
	ok(READ("--key=--help") == 2 && !strcmp(key, "--help"), "a value may look like an option after =");
}

static void test_option_mistakes(void)
{
	ok(READ("--donate", "12Q") == -EINVAL && LOGGED("--donate: '12Q' is not a size; write it like 64M or 2G"),
	   "not a size");
	ok(READ("--donate", "0") == -EINVAL && LOGGED("--donate: '0' is out of range; it can be 64M to 1T"),
	   "a size of 0");
	ok(READ("--donate", "2T") == -EINVAL && LOGGED("--donate: '2T' is out of range; it can be 64M to 1T"),
	   "too large a size");
	ok(READ("--donate", "99E") == -EINVAL && LOGGED("--donate: '99E' is out of range; it can be 64M to 1T"),
	   "a size beyond 64 bits");
	ok(READ("--slab", "1K") == -EINVAL && LOGGED("--slab: '1K' is out of range; the least is 4096"),
	   "a size with only a lower bound");
	ok(READ("--slab", "16E") == -EINVAL && LOGGED("--slab: '16E' is too large; the most is below 16E"),
	   "a size beyond 64 bits without a bound");
	ok(READ("--clients", "0") == -EINVAL && LOGGED("--clients: '0' is out of range; it can be 1 to 1024"),
	   "too small a number");
	ok(READ("--depth", "4294967296") == -EINVAL &&
	       LOGGED("--depth: '4294967296' is out of range; it can be 0 to 4294967295"),
	   "a number beyond 32 bits");
	ok(READ("--depth", "99999999999999999999999999999999") == -EINVAL && take_log()[0], "and far beyond");
	ok(READ("--clients", "-1") == -EINVAL && LOGGED("--clients: '-1' is not a number"), "a negative number");
	ok(READ("--clients", "") == -EINVAL && LOGGED("--clients: '' is not a number"), "an empty number");
	ok(READ("--clients", "7x") == -EINVAL && LOGGED("--clients: '7x' is not a number"), "half a number");
	ok(READ("--insecure=maybe") == -EINVAL && LOGGED("--insecure: 'maybe' is neither yes nor no"), "half a flag");
	ok(READ("--key", "") == -EINVAL && LOGGED("--key: nothing is given; write a FILE"), "an empty string");
	ok(READ("--listen", "a,,b") == -EINVAL &&
	       LOGGED("--listen: 'a,,b' has an empty item; write one, or several with a comma between"),
	   "an empty item");
	ok(READ("--donte", "1G") == -EINVAL && LOGGED("--donte: unknown option; --help names all of them"),
	   "an unknown option");
	ok(READ("--don=1G") == -EINVAL && LOGGED("--don: unknown option; --help names all of them"),
	   "no abbreviations");
	ok(READ("-d", "1G") == -EINVAL && LOGGED("-d: unknown option; --help names all of them"), "nor short ones");
	ok(READ("--=x") == -EINVAL && LOGGED("--: unknown option; --help names all of them"), "nor empty ones");
	ok(READ("--donate") == -EINVAL && LOGGED("--donate: its SIZE is missing; see --help"),
	   "a missing value, at the end");
	ok(READ("--key", "--insecure") == -EINVAL && LOGGED("--key: its FILE is missing; see --help"),
	   "a missing value, before another option");
	ok(READ("--config") == -EINVAL && LOGGED("--config: its FILE is missing; see --help"), "a missing file name");
}

static void test_list_overflow(void)
{
	char text[3 * CONFIG_LIST_MAX + 8] = "a";
	for (unsigned i = 1; i < CONFIG_LIST_MAX; i++)
		strcat(text, ",a");
	ok(READ("--listen", text) == 3 && listen_on.count == CONFIG_LIST_MAX, "the longest list");
	strcat(text, ",a");
	ok(READ("--listen", text) == -EINVAL && LOGGED("--listen: more than 64 are given"), "one more is too many");
}

static void free_key(void)
{
	free((void *)(uintptr_t)key);
	key = NULL;
}

static void test_text(void)
{
	ok(read_text("") == 0 && !*take_log(), "an empty file");
	ok(read_text("# a sample\n\n[farpage-memserver]\n; memory\ndonate = 2G ; lots\ninsecure=yes\r\n"
		     "  clients = 5\n\tkey = /etc/a key\nlisten = a, b\nlisten = c") == 0 &&
	       donate == 2ull << 30 && insecure && clients == 5 && !strcmp(key, "/etc/a key") && listen_on.count == 3 &&
	       !strcmp(listen_on.items[2], "c") && !*take_log(),
	   "settings of each kind, comments, indentation, any line end");
	free_key();
}

static void test_text_mistakes(void)
{
	ok(read_text("[farpage-memserver]\n\ndonate = 12Q\n") == -EINVAL &&
	       LOGGED("test.conf:3: donate: '12Q' is not a size; write it like 64M or 2G"),
	   "not a size");
	ok(read_text("[farpage-memserver]\n# x\ndonat = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:3: unknown setting 'donat'; --help names all of them"),
	   "an unknown setting");
	ok(read_text("[farpage-memserver]\nclients = 2000") == -EINVAL &&
	       LOGGED("test.conf:2: clients: '2000' is out of range; it can be 1 to 1024"),
	   "out of range");
	ok(read_text("donate = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:1: 'donate' stands before any section; write [farpage-memserver] above it"),
	   "no section");
	ok(read_text("[memserver]\ndonate = 1G\n") == -EINVAL &&
	       LOGGED("test.conf:2: [memserver] is not a section of this file; write [farpage-memserver]"),
	   "another section");
	ok(read_text("[farpage-memserver]\ndonate = 1G\ndonate = 2G\n") == -EINVAL &&
	       LOGGED("test.conf:3: donate: it is set twice; leave one"),
	   "set twice");
	ok(read_text("[farpage-memserver]\ninsecure\n") == -EINVAL &&
	       LOGGED("test.conf:2: neither a [section] nor a 'name = value'"),
	   "neither section nor setting");
	ok(read_text("[farpage-memserver\n") == -EINVAL &&
	       LOGGED("test.conf:1: neither a [section] nor a 'name = value'"),
	   "half a section");
	ok(read_text("[farpage-memserver]\nkey =\n") == -EINVAL &&
	       LOGGED("test.conf:2: key: nothing is given; write a FILE"),
	   "an empty value");
	ok(read_text("[farpage-memserver]\ndonate = x\nslab = y\nclients = z\n") == -EINVAL &&
	       LOGGED("test.conf:2: donate: 'x' is not a size; write it like 64M or 2G"),
	   "several mistakes, one line");
}

static void test_long_line(void)
{
	static char text[5000] = "[farpage-memserver]\nkey = ";
	size_t start = strlen(text);
	memset(text + start, 'x', sizeof text - 1 - start);
	int error = read_text(text);
	const char *line = take_log();
	ok(error == -EINVAL && strstr(line, "test.conf:2: the line is too long; the most is ") &&
	       strchr(line, '\n') == line + strlen(line) - 1,
	   "a line too long is refused, not cut in two");
	ok(!key, "and sets nothing");
}

static char path[] = "/tmp/farpage-test-config-XXXXXX";

/* Writes a string literal, inner zero bytes and all. */
#define FILE_WRITE(text) file_write(text, sizeof text - 1)

static void file_write(const char *text, size_t size)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, text, size) != (ssize_t)size || close(fd))
		abort();
}

#define FILE_TEXT "[farpage-memserver]\ndonate = 3G\nclients = 9\nlisten = f1\nlisten = f2\n"

static void test_file(void)
{
	char expected[256];
	FILE_WRITE(FILE_TEXT);
	ok(READ("--config", path) == 3 && donate == 3ull << 30 && clients == 9 && listen_on.count == 2,
	   "the file is read");
	char option[64];
	snprintf(option, sizeof option, "--config=%s", path);
	ok(READ("--donate", "1G", "--listen", "c", option, "x") == 6 && donate == 1ull << 30 && clients == 9 &&
	       listen_on.count == 1 && !strcmp(listen_on.items[0], "c"),
	   "the command line wins, whatever the order; the rest is the file's");
	ok(!*take_log(), "without a word");
	reset();
	ok(config_read_file(settings, "farpage-memserver", path) == 0 && clients == 9, "the file alone");
	FILE_WRITE("[farpage-memserver]\nclients = none\n");
	ok(READ("--config", path) == -EINVAL, "a mistake in the file");
	snprintf(expected, sizeof expected, "farpage-memserver: %s:2: clients: 'none' is not a number\n", path);
	ok(!strcmp(take_log(), expected), "names file and line");
	FILE_WRITE("[farpage-memserver]\n\0clients = 1\n");
	ok(config_read_file(settings, "farpage-memserver", path) == -EINVAL, "a file with a zero byte");
	snprintf(expected, sizeof expected, "farpage-memserver: %s: not a text file\n", path);
	ok(!strcmp(take_log(), expected), "is no text");
	unlink(path);
	ok(config_read_file(settings, "farpage-memserver", path) == -ENOENT, "no file");
	snprintf(expected, sizeof expected, "farpage-memserver: %s: cannot be opened: No such file or directory\n",
		 path);
	ok(!strcmp(take_log(), expected), "and it is named");
	ok(config_read_file(settings, "farpage-memserver", "/") == -EINVAL && LOGGED("/: not a regular file"),
	   "a directory is not read");
	ok(READ("--config", path, "--bogus") == -EINVAL && LOGGED("--bogus: unknown option; --help names all of them"),
	   "one line for several mistakes");
}

static void test_help(void)
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
	   "each setting on a line, in columns");
}

int main(void)
{
	int ends[2], fd = mkstemp(path);
	if (fd < 0 || pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return tap_skip_all("no pipe or no temporary file");
	close(fd);
	unsetenv("JOURNAL_STREAM");
	pipe_read = ends[0];
	log_set_fd(ends[1]);
	log_setup("farpage-memserver", LOG_LEVEL_WARNING);
	test_options();
	test_option_mistakes();
	test_list_overflow();
	test_text();
	test_text_mistakes();
	test_long_line();
	test_file();
	test_help();
	reset();
	return tap_done();
}
