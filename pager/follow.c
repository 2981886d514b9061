#include "pager/follow.h"

#include "common/ascii.h"
#include "common/format.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000ull   /* pause between two reads of the file; a read takes some 10 us */
#define ALONE_NS 20000000ull /* if no other thread has faulted for so long, one thread faults alone */

/* The processors that the process had at its start. */
static cpu_set_t given;

static void __attribute__((constructor)) note_given(void)
{
	sched_getaffinity(getpid(), sizeof given, &given);
}

void follow_init(struct follow *follow)
{
	const char *setting = getenv("FARPAGE_FOLLOW");

	*follow = (struct follow){.cpu = -1, .off = setting && setting[0] == '0', .alone = -1};
}

/* Returns the processor on which a thread ran last, or -1 if it is unknown. */
static int processor_of(pid_t thread, bool own)
{
	char path[64], text[512];

	format_text(path, sizeof path, own ? "/proc/self/task/%d/stat" : "/proc/%d/stat", (int)thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t size = read(fd, text, sizeof text - 1);
	close(fd);
	if (size <= 0)
		return -1;
	text[size] = '\0';
	/* The processor is field 39. Field 2, the command, ends with the last parenthesis. */
	const char *at = strrchr(text, ')');
	for (int field = 3; at && field <= 39; field++)
		at = strchr(at + 1, ' ');
	if (at)
		at++;
	return at ? (int)ascii_number(&at) : -1;
}

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

static bool pin(int cpu)
{
	const cpu_set_t set = only(cpu);

	return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* Undoes pin(). Does nothing if another process has moved the thread since (taskset -a). */
static void unpin(int cpu)
{
	const cpu_set_t pinned = only(cpu);
	cpu_set_t now;

	if (!sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, &pinned))
		sched_setaffinity(0, sizeof given, &given);
}

void follow_thread(struct follow *follow, pid_t thread, bool own, uint64_t now)
{
	if (follow->off || thread <= 0)
		return;
	if (own && thread != follow->thread) {
		follow->thread = thread;
		follow->since = now;
		atomic_store(&follow->alone, -1);
	}
	if (now < follow->next_look)
		return;
	follow->next_look = now + LOOK_NS;
	int cpu = processor_of(thread, own);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	if (own && now - follow->since >= ALONE_NS)
		atomic_store(&follow->alone, cpu);
	if (cpu != follow->cpu && pin(cpu))
		follow->cpu = cpu;
}

void follow_alone(const struct follow *follow, bool allowed, int *cpu)
{
	int wanted = allowed ? atomic_load(&follow->alone) : -1;

	if (wanted == *cpu)
		return;
	if (wanted >= 0)
		pin(wanted);
	else
		unpin(*cpu);
	*cpu = wanted;
}
