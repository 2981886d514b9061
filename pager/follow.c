#include "pager/follow.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000ull /* 5 ms between two looks: at some 10 µs each, 0.2 % of the time */

void follow_init(struct follow *follow)
{
	const char *setting = getenv("FARPAGE_FOLLOW");
	*follow = (struct follow){.cpu = -1, .off = setting && setting[0] == '0'};
}

/* The processor field of /proc/self/task/TID/stat: the 37th after the command's closing parenthesis; -1: unknown. */
static int processor_of(pid_t thread)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t size = read(fd, text, sizeof text - 1);
	close(fd);
	if (size <= 0)
		return -1;
	text[size] = '\0';
	const char *at = strrchr(text, ')');
	for (int field = 0; at && field < 37; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at + 1) : -1;
}

void follow_thread(struct follow *follow, pid_t thread, uint64_t now)
{
	if (follow->off || now < follow->next_look || thread <= 0)
		return;
	follow->next_look = now + LOOK_NS;
	int cpu = processor_of(thread);
	if (cpu < 0 || cpu == follow->cpu || cpu >= CPU_SETSIZE)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) == 0)
		follow->cpu = cpu;
}
