/*
 * state: donors that are added to the store of a state file. They are known when the store is adopted, and a death at
 * any moment leaves a valid file.
 */
#include "common/format.h"
#include "common/log.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DONORS 3u
#define CHUNK_PAGES 8u
#define STEPS_MAX 1000000u
#define FILE_MAX (1u << 20)

static const char *const uris[DONORS] = {"tcp://10.0.0.1:7470", "rdma://10.0.0.2:7470", "auto://third:1"};
static const struct far_config config = {
    .donors = uris, .donor_count = DONORS, .pages = 20 * CHUNK_PAGES, .replicas = 2};
/* The same store, with a donors file. */
static const struct far_config listed = {
    .donors = uris, .donor_count = 1, .donors_file = "/donors", .pages = 20 * CHUNK_PAGES, .replicas = 2};
static const uint8_t id[WIRE_ID_SIZE] = "somebody's id";

static int file;

static struct state *adopted_or_die(const struct far_config *wanted)
{
	struct state *state = state_file_open(file);

	if (state_adopt(state, wanted) < 0)
		abort();
	return state;
}

/* Makes a file with a store whose process has ended. */
static void file_fill(void)
{
	struct state *state;

	file = memfd_create("state", MFD_CLOEXEC);
	state = state_file_open(file);
	if (state_create(state, &config, config.pages, CHUNK_PAGES, id) < 0)
		abort();
	state_close(state, false);
}

static void added_donors_are_kept(void)
{
	struct state *state;

	file_fill();
	state = state_file_open(file);
	ok(state_adopt(state, &listed) == 0 && state_donor_count(state) == DONORS,
	   "a store with a donors file is adopted whichever donors the file names");
	state_donor_add(state, "tcp://10.0.0.4");
	state_donor_add(state, "tcp://10.0.0.5");
	state_close(state, false);
	state = state_file_open(file);
	ok(state_adopt(state, &listed) == 0 && state_donor_count(state) == DONORS + 2 &&
	       !strcmp(state_header(state)->uris[DONORS + 1], "tcp://10.0.0.5"),
	   "added donors are there when the store is adopted");
	state_header(state)->added = FAR_DONORS_MAX;
	state_close(state, false);
	ok(state_file_adopt(file, &listed) == -EINVAL, "more donors than a store can have are refused");
	state = state_file_open(file);
	state_close(state, false);
	file_fill();
	ok(state_file_adopt(file, &config) == 0, "a store without added donors is adopted without a donors file");
	state = adopted_or_die(&config);
	state_donor_add(state, "tcp://10.0.0.4");
	state_close(state, false);
	ok(state_file_adopt(file, &config) == -EINVAL, "a store with added donors is refused without a donors file");
	close(file);
}

static void addresses_of_added_donors_are_compared(void)
{
	const char *named[DONORS + 1] = {uris[0], uris[1], uris[2], "tcp://10.0.0.4"};
	struct far_config all = config;
	struct state *state;

	all.donors = named;
	all.donor_count = DONORS + 1;
	file_fill();
	state = adopted_or_die(&config);
	state_donor_add(state, "tcp://10.0.0.4");
	state_close(state, false);
	ok(state_file_adopt(file, &all) == 0,
	   "a store with an added donor is adopted with the addresses of all its donors");
	named[DONORS] = "tcp://10.0.0.5";
	ok(state_file_adopt(file, &all) == -EINVAL, "another address in the place of an added donor is refused");
	close(file);
}

static void donors_beyond_the_header_are_kept(void)
{
	static char texts[FAR_DONORS_MAX][32];
	static const char *many[FAR_DONORS_MAX];
	struct far_config wanted = config;
	struct state *state;
	unsigned wrong = 0;

	for (unsigned i = 0; i < FAR_DONORS_MAX; i++) {
		format_text(texts[i], sizeof texts[i], "tcp://10.1.0.1:%u", 1 + i);
		many[i] = texts[i];
	}
	wanted.donors = many;
	wanted.donor_count = FAR_DONORS_MAX - 1;
	file = memfd_create("state", MFD_CLOEXEC);
	state = state_file_open(file);
	ok(state_create(state, &wanted, wanted.pages, CHUNK_PAGES, id) == 0, "a store of %u donors is created",
	   wanted.donor_count);
	for (unsigned i = 0; i < wanted.donor_count; i++)
		*state_incarnation(state, i) = 1000 + i;
	state_close(state, false);
	state = adopted_or_die(&wanted);
	ok(state_donor_count(state) == wanted.donor_count && state_donor_places(state) == FAR_DONORS_MAX,
	   "the adopted store has as many donors, and a place for one more");
	for (unsigned i = 0; i < wanted.donor_count; i++)
		wrong += strcmp(state_uri(state, i), many[i]) || *state_incarnation(state, i) != 1000 + i;
	ok(!wrong, "each donor has its address and its incarnation");
	state_donor_add(state, many[FAR_DONORS_MAX - 1]);
	state_close(state, false);
	ok(state_file_adopt(file, &wanted) == -EINVAL, "one donor fewer than the store has is refused");
	wanted.donor_count++;
	ok(state_file_adopt(file, &wanted) == 0, "the store is adopted with the last possible donor added");
	many[STATE_DONORS] = "tcp://10.2.0.1:1";
	ok(state_file_adopt(file, &wanted) == -EINVAL, "another address beyond the header is refused");
	many[STATE_DONORS] = texts[STATE_DONORS];
	state = adopted_or_die(&wanted);
	memset(state_uri(state, FAR_DONORS_MAX - 1), 'x', FAR_URI_MAX);
	state_close(state, false);
	ok(state_file_adopt(file, &wanted) == -EINVAL, "an address beyond the header that never ends is refused");
	close(file);
}

/* --- Deaths ------------------------------------------------------------------------------------------------------- */

struct deaths {
	int changes; /* how often the file changed, or -1 if it cannot be executed in single steps here */
	unsigned refused, without, with; /* files that cannot be adopted; those without and with the change */
};

/* Copies the file to a new memfd. */
static int file_copy(void)
{
	int copy = memfd_create("copy", MFD_CLOEXEC);
	off_t from = 0;

	while (sendfile(copy, file, &from, FILE_MAX) > 0)
		;
	return copy;
}

/* Runs @change in a child, one machine instruction at a time. After each instruction that has changed the file's length
   or header, calls @look with a copy of the file, as a process would find it after a death there. */
static struct deaths deaths_in(void (*change)(void), void (*look)(int copy, struct deaths *deaths))
{
	static unsigned char before[STATE_HEADER_BYTES], now[STATE_HEADER_BYTES];
	struct deaths deaths = {0};
	struct stat was, is;
	int status = 0;
	pid_t child;

	/* There is no second thread to find, and each step takes four times as long. */
	if (UNDER_TSAN)
		return (struct deaths){.changes = -1};
	if (fstat(file, &was) < 0 || pread(file, before, sizeof before, 0) < 0)
		abort();
	child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(1);
		raise(SIGSTOP);
		change();
		_exit(0);
	}
	for (unsigned steps = 0; child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status); steps++) {
		if (fstat(file, &is) < 0 || pread(file, now, sizeof now, 0) < 0)
			abort();
		if (is.st_size != was.st_size || memcmp(before, now, sizeof now) != 0) {
			int copy = file_copy();

			was = is;
			memcpy(before, now, sizeof now);
			deaths.changes++;
			look(copy, &deaths);
			close(copy);
		}
		if (steps == STEPS_MAX)
			kill(child, SIGKILL);
		else if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0)
			abort();
	}
	/* Single steps never get through some atomic additions. */
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		deaths.changes = -1;
	return deaths;
}

/* Checks that no death makes the file invalid, and that there were at least @least. @what says what the process did.
   Returns false if the machine cannot do this. */
static bool deaths_do_no_harm(const struct deaths *deaths, int least, const char *what)
{
	if (deaths->changes < 0) {
		tap_skip("a process may die at each instruction", "no ptrace here, or ThreadSanitizer");
		return false;
	}
	ok(deaths->changes >= least && !deaths->refused, "a process may die at each of %d writes while it %s",
	   deaths->changes, what);
	return true;
}

static struct state *in_change;

static void add_donor(void)
{
	state_donor_add(in_change, "tcp://10.0.0.4:7470");
}

static void look_for_donor(int copy, struct deaths *deaths)
{
	struct state *state = state_file_open(copy);

	if (state_adopt(state, &listed) < 0)
		deaths->refused++;
	else if (state_donor_count(state) == DONORS)
		deaths->without++;
	else
		deaths->with++;
	state_close(state, false);
}

static void a_death_while_a_donor_is_added_leaves_a_valid_file(void)
{
	struct deaths deaths;

	file_fill();
	in_change = adopted_or_die(&listed);
	deaths = deaths_in(add_donor, look_for_donor);
	state_close(in_change, false);
	close(file);
	if (deaths_do_no_harm(&deaths, 2, "adds a donor"))
		ok(deaths.with == 1, "only the last write adds the donor");
}

static const char *many[STATE_DONORS + 3];
static const struct far_config config_many = {
    .donors = many, .donor_count = STATE_DONORS + 3, .pages = CHUNK_PAGES, .replicas = 2};

static void create_many(void)
{
	if (state_create(in_change, &config_many, config_many.pages, CHUNK_PAGES, id) < 0)
		_exit(1);
}

static void look_for_store(int copy, struct deaths *deaths)
{
	struct state *state = state_file_open(copy);

	if (state_is_new(state)) {
		deaths->without += state_create(state, &config_many, config_many.pages, CHUNK_PAGES, id) == 0;
	} else if (state_adopt(state, &config_many) < 0) {
		deaths->refused++;
	} else {
		deaths->with++;
	}
	state_close(state, false);
}

static void a_death_while_a_store_of_many_donors_is_created_leaves_none_or_all(void)
{
	struct deaths deaths;

	for (unsigned i = 0; i < config_many.donor_count; i++)
		many[i] = "tcp://10.0.0.1:7470";
	file = memfd_create("state", MFD_CLOEXEC);
	in_change = state_file_open(file);
	deaths = deaths_in(create_many, look_for_store);
	state_close(in_change, false);
	close(file);
	if (deaths_do_no_harm(&deaths, 7, "creates a store"))
		ok(deaths.with == 1 && (int)deaths.without == deaths.changes - 1,
		   "only the last write makes a store of %u donors, and each other file counts as new",
		   config_many.donor_count);
}

static void leavings_of_a_death_do_no_harm(void)
{
	static const char leavings[] = "tcp://10.0.0.4:7470/whose process was killed before it counted the donor";
	const off_t place = offsetof(struct state_header, uris) + DONORS * FAR_URI_MAX;
	unsigned refused = 0;
	struct state *state;

	file_fill();
	for (size_t length = 1; length <= sizeof leavings; length++) {
		if (pwrite(file, leavings, length, place) != (ssize_t)length)
			abort();
		refused += state_file_adopt(file, &listed) < 0;
	}
	ok(!refused, "any part of an address that was never counted leaves a valid file");
	state = adopted_or_die(&listed);
	state_donor_add(state, "tcp://10.0.0.5");
	ok(state_donor_count(state) == DONORS + 1 && !strcmp(state_header(state)->uris[DONORS], "tcp://10.0.0.5"),
	   "the next donor is added over such a part");
	state_close(state, false);
	close(file);
}

int main(void)
{
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	added_donors_are_kept();
	addresses_of_added_donors_are_compared();
	donors_beyond_the_header_are_kept();
	a_death_while_a_donor_is_added_leaves_a_valid_file();
	a_death_while_a_store_of_many_donors_is_created_leaves_none_or_all();
	leavings_of_a_death_do_no_harm();
	return tap_done();
}
