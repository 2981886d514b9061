/* process: reads figures of a process from /proc. */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include "tests/lib/tap.h"

#include <sys/types.h>

/* Returns the processor time that a process has used, in ticks of sysconf(_SC_CLK_TCK), or 0 if the process has
   ended. */
static inline unsigned long long process_ticks(pid_t pid)
{
	unsigned long long user = 0, system = 0;
	char path[40], line[1024] = "";
	const char *rest;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* The fields begin after the last parenthesis, because the process's name may contain spaces and
	   parentheses. */
	rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		user = system = 0;
	fclose(file);
	return user + system;
}

#endif
