/* log_limit: bounds the lines that others can cause, and counts each line that is left out. */
#include "common/log.h"
#include "common/log_limit.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static int pipe_read;

static const char *take(void)
{
	static char got[1 << 12];
	ssize_t count = read(pipe_read, got, sizeof got - 1);

	got[count > 0 ? count : 0] = '\0';
	return got;
}

int main(void)
{
	struct log_limit limit = {.what = "visits"};
	uint64_t now = 1000 * SECOND;
	unsigned said = 0;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return EXIT_FAILURE;
	pipe_read = ends[0];
	log_setup("test", LOG_LEVEL_INFO);
	log_set_fd(ends[1]);

	ok(log_limit_due(&limit) == UINT64_MAX, "a new limit has no line due");
	for (int i = 0; i < 112822; i++)
		said += log_limit_take(&limit, now + (uint64_t)i * 50000);
	ok(said == LOG_LIMIT_LINES, "a limit lets %u of 112,822 lines in six seconds pass", said);
	ok(log_limit_due(&limit) == now + LOG_LIMIT_NS,
	   "the line about left-out lines is due a minute after the first line");
	log_limit_tell(&limit, now + 59 * SECOND);
	ok(!*take(), "the line about left-out lines is not written before the minute is over");
	now += LOG_LIMIT_NS;
	log_limit_tell(&limit, now);
	ok(!strcmp(take(), "test: and 112762 more visits in the last minute, which were not logged\n"),
	   "one line says after the minute how many lines were left out");
	ok(log_limit_due(&limit) == UINT64_MAX, "a limit that has written its line has no line due");
	ok(log_limit_take(&limit, now), "a line in the next minute passes again");
	for (unsigned i = 0; i < LOG_LIMIT_LINES + 4; i++)
		log_limit_take(&limit, now);
	ok(log_limit_take(&limit, now + LOG_LIMIT_NS), "a line after a minute with too many lines passes");
	ok(!strcmp(take(), "test: and 5 more visits in the last minute, which were not logged\n"),
	   "the first line after the minute follows the line about left-out lines");
	ok(limit.more_in_all == 112762 + 5, "a limit counts all lines that were left out");
	return tap_done();
}
