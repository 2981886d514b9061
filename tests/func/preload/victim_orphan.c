/*
 * victim_orphan "plain"|"far"|"early"|"late" [WORD...]: forks a child and ends, so the pager ends, too. The child
 * continues.
 *   plain   the child needs no far page, and prints "alive"
 *   far     the child reads far memory, and prints "wrong" if contents are wrong, or else "right"
 *   early   The parent has used an eighth of the memory, so no page is far at the fork. The child uses all of it, and
 *           forks a child of its own. It prints "wrong" if contents are wrong in one of the two, or else "grown".
 *   late    the same, but the parent has used all memory
 * The words:
 *   twice   the child forks at once and ends, too, and its child does the above
 *   closed  the child first closes all descriptors that it did not open
 *   drops   with "early": the child gives up root's rights before its parent ends, so it cannot have a pager of its
 *           own
 *   killed  the parent is killed. Otherwise it returns from main().
 *   _exit   the parent ends by _exit()
 *   daemon  the parent forks and ends by daemon()
 *   asleep  the child is stopped (SIGSTOP) when its parent ends, and continues afterwards
 */
#include "tests/func/preload/victim.h"

/* Uses the rest of the memory. Returns true if all contents are right, here and in a forked child, and if the memory is
   within the budget, a third of it, unless it @stays local. */
static bool grow(char *memory, size_t filled, size_t size, bool stays)
{
	if (wrong(memory, filled, 1, 0) || not_zero(memory + filled, size - filled))
		return false;
	fill(memory, size, 1);
	pid_t child = fork_child();
	if (child == 0)
		_exit(wrong(memory, size, 1, 0) != 0);
	return wait_for(child) == 0 && !wrong(memory, size, 1, 0) && (resident() < size / 2) == !stays;
}

static int child_main(char *memory, size_t filled, size_t size, const char *what, bool drops)
{
	static char result[] = "right\n";

	if (!strcmp(what, "plain"))
		memcpy(result, "alive\n", 6);
	else if (strcmp(what, "far"))
		memcpy(result, grow(memory, filled, size, drops) ? "grown\n" : "wrong\n", 6);
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

/* Stops @child. It continues when nobody has the other end of the pipe @parent any more. */
static void put_to_sleep(pid_t child, const int *parent)
{
	char byte;

	kill(child, SIGSTOP);
	if (fork())
		return;
	close(parent[1]);
	_exit(read(parent[0], &byte, 1) != 0 || kill(child, SIGCONT));
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
	int parent[2], ready[2];

	if (argc < 2 || pipe(parent) || pipe(ready))
		return 1;
	const bool drops = has_word(argv, "drops");
	const size_t filled = strcmp(argv[1], "early") ? size : size / 8;
	fill(memory, filled, 1);
	pid_t child = has_word(argv, "daemon") ? daemon(1, 1) : fork();
	switch (child) {
	case -1:
		return 1;
	case 0:
		close(parent[1]);
		if (has_word(argv, "twice") && fork())
			return 0;
		if (drops && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
			return 1;
		close(ready[1]);
		if (has_word(argv, "closed"))
			close_others(parent[0]);
		if (read(parent[0], &byte, 1) != 0) /* waits until the parent has ended */
			return 1;
		_exit(child_main(memory, filled, size, argv[1], drops));
	default:
		close(ready[1]);
		const bool sleeps = has_word(argv, "asleep");
		if ((drops || sleeps) && read(ready[0], &byte, 1) != 0)
			return 1;
		if (sleeps)
			put_to_sleep(child, parent);
		if (has_word(argv, "killed"))
			kill(getpid(), SIGKILL);
		if (has_word(argv, "_exit"))
			_exit(0);
		return 0;
	}
}
