/*
 * victim_sharer "vfork"|"clone" "plain"|"far"|"fork" ["exec"]: makes a process that shares its memory, by vfork() or
 * clone(CLONE_VM). Then the maker is killed, or executes another program ("exec"). The process continues.
 *   plain  needs no far page, and prints "alive"
 *   far    reads far memory, and prints "wrong" if contents are wrong, or else "right"
 *   fork   forks a child by a bare system call. The child reads far memory and prints as above.
 */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

static char *memory, stack[65536] __attribute__((aligned(16)));
static size_t size;
static int maker_lives[2];
static const char *what;

static void __attribute__((noreturn)) say(const char *word)
{
	if (write(1, word, strlen(word)) < 0)
		size = 0;
	syscall(SYS_exit_group, 0);
	abort();
}

static int share(void *kill_maker)
{
	char byte;

	if (kill_maker)
		syscall(SYS_kill, *(pid_t *)kill_maker, SIGKILL);
	close(maker_lives[1]);
	while (read(maker_lives[0], &byte, 1) < 0 && errno == EINTR)
		; /* waits until the maker has ended */
	if (!strcmp(what, "plain"))
		say("alive\n");
	if (!strcmp(what, "fork") && syscall(SYS_fork) != 0)
		syscall(SYS_exit_group, 0);
	say(wrong(memory, size, 1, 0) ? "wrong\n" : "right\n");
}

int main(int argc, char **argv)
{
	if (argc < 3 || pipe2(maker_lives, O_CLOEXEC))
		return 1;
	pid_t self = getpid();
	size = victim_size();
	memory = map_memory(size);
	what = argv[2];
	fill(memory, size, 1);
	if (!strcmp(argv[1], "vfork")) {
		if (vfork() == 0)
			share(&self);
	} else {
		clone(share, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
		if (argc > 3)
			execl("/bin/true", "true", NULL);
		kill(self, SIGKILL);
	}
	pause();
}
