/*
 * A process that lives in the memory of its maker, which is killed: by vfork() ("vfork") or clone(CLONE_VM) ("clone").
 * "plain": needs nothing far, and says "alive"; "far": reads far memory: whatever it gets must not be wrong; "fork":
 * forks a child by a system call, which reads far memory. With "exec" as the third word the maker executes another
 * program instead of being killed.
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
		; /* until the maker has ended */
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
