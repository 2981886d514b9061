#include "common/process.h"

#include "common/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int process_look(pid_t pid, struct process *ret_process)
{
	char path[64], text[512], state;
	unsigned long long own, children;
	int parent;
	long threads;
	ssize_t length;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	length = text_file_read(path, text, sizeof text);
	if (length < 0)
		return length == -ENOENT ? -ESRCH : (int)length;
	/* The name of the program may contain any character, also a parenthesis. */
	const char *behind_name = strrchr(text, ')');
	if (!behind_name ||
	    sscanf(behind_name, ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %*u %llu %*d %*d %*d %ld", &state,
		   &parent, &own, &children, &threads) != 5)
		return -EPROTO;
	*ret_process = (struct process){
	    .parent = parent,
	    .ended = state == 'Z' || state == 'X',
	    .threads = (unsigned)threads,
	    .user_ns = (uint64_t)(own + children) * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)),
	};
	return 0;
}

bool process_has_ended(pid_t pid)
{
	struct process process;

	return process_look(pid, &process) < 0 || (process.ended && process.threads <= 1);
}

bool process_shares_namespace(pid_t pid, const char *kind)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
	if (stat(path, &ours))
		return errno == ENOENT;
	snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, kind);
	return stat(path, &its) == 0 && its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}
