/*
 * victim_orphan "plain"|"far" ["twice"] ["closed"]: forks a child and ends, so the pager ends, too. The child continues.
 *   plain   the child needs no far page, and prints "alive"
 *   far     the child reads far memory, and prints "wrong" if contents are wrong, or else "right"
 *   twice   the child forks at once and ends, too, and its child does the above
 *   closed  the child first closes all descriptors that it did not open
 */
#include "tests/func/preload/victim.h"

static int child_main(const char *memory, size_t size, const char *what)
{
	static char result[] = "right\n";

	if (!strcmp(what, "plain"))
		memcpy(result, "alive\n", 6);
	else if (wrong(memory, size, 1, 0))
		memcpy(result, "wrong\n", 6);
	return write(1, result, 6) != 6;
}

static void close_others(int fd)
{
	if (fd > 3)
		close_range(3, (unsigned)fd - 1, 0);
	close_range((unsigned)fd + 1, ~0U, 0);
}

static bool has_word(char **words, const char *word)
{
	while (*words && strcmp(*words, word))
		words++;
	return *words;
}

int main(int argc, char **argv)
{
	size_t size = victim_size();
	char *memory = map_memory(size), byte;
	int parent[2];

	fill(memory, size, 1);
	if (argc < 2 || pipe(parent))
		return 1;
	switch (fork()) {
	case -1:
		return 1;
	case 0:
		close(parent[1]);
		if (has_word(argv, "twice") && fork())
			return 0;
		if (has_word(argv, "closed"))
			close_others(parent[0]);
		if (read(parent[0], &byte, 1) != 0) /* waits until the parent has ended */
			return 1;
		_exit(child_main(memory, size, argv[1]));
	default:
		return 0;
	}
}
