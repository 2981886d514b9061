/*
 * donor and connection: thousands of seeded conversations with good and bad clients (see conversation.h).
 * `test_conversation SEED` replays one.
 */
#include "common/log.h"
#include "common/random.h"
#include "tests/lib/tap.h"
#include "tests/unit/memserver/conversation.h"

#include <fcntl.h>

#define CONVERSATIONS 3000
#define LENGTH 3000

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : CONVERSATIONS, seed;
	struct conversation_counts counts = {0};
	static uint8_t bytes[LENGTH];
	const char *wrong = NULL;

	if (argc > 1)
		log_setup("conversation", LOG_LEVEL_DEBUG);
	else
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	for (seed = first; seed <= last; seed++) {
		struct random_state random;

		random_seed(&random, seed);
		for (size_t i = 0; i < LENGTH; i++)
			bytes[i] = (uint8_t)random_next(&random);
		wrong = conversation_run(bytes, LENGTH, &counts);
		if (wrong)
			break;
	}
	ok(!wrong, "%llu random conversations with a donor break no rule", (unsigned long long)(last - first + 1));
	if (wrong)
		printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
	ok(argc > 1 || (counts.sessions > 1000 && counts.attached > 1000 && counts.grants > 1000 &&
			counts.returned > 100 && counts.refused > 1000 && counts.ended > 1000 && counts.revokes > 100 &&
			counts.takens > 50 && counts.drains > 500 && counts.unreachable > 20),
	   "the conversations reach every kind of event often (%u %u %u %u %u %u %u %u %u %u)", counts.sessions,
	   counts.attached, counts.grants, counts.returned, counts.refused, counts.ended, counts.revokes, counts.takens,
	   counts.drains, counts.unreachable);
	return tap_done();
}
