#include "pager/follow.h"

#include "common/ascii.h"
#include "common/format.h"
#include "common/thread.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000ull /* pause between two reads of the file; a read takes some 10 us */

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

static int number_at(const char *text)
{
	return (int)ascii_number(&text);
}

/* Reads a thread's last processor and the number of threads. Returns false if they are unknown. */
static bool look(pid_t thread, bool own, int *ret_cpu, int *ret_threads)
{
	char path[64], text[512];

	format_text(path, sizeof path, own ? "/proc/self/task/%d/stat" : "/proc/%d/stat", (int)thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t size = read(fd, text, sizeof text - 1);
	close(fd);
	if (size <= 0)
		return false;
	text[size] = '\0';
	/* The processor is field 39, the number of threads field 20. Field 2, the command, ends with the last
	   parenthesis. */
	const char *at = strrchr(text, ')');
	for (int field = 3; at && field <= 39; field++) {
		at = strchr(at + 1, ' ');
		if (at && field == 20)
			*ret_threads = number_at(at + 1);
	}
	if (at)
		*ret_cpu = number_at(at + 1);
	return at;
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
	if (follow->off || now < follow->next_look || thread <= 0)
		return;
	follow->next_look = now + LOOK_NS;
	int cpu, threads;
	if (!look(thread, own, &cpu, &threads) || cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	if (own)
		atomic_store(&follow->alone, threads <= 1 + (int)thread_count() ? cpu : -1);
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
