/*
 * Another process reads the memory of this process, as debuggers do. It gets the right contents or an error.
 */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>

struct seen {
	size_t right, wrong, refused; /* pages */
};

static bool read_call(pid_t process, const char *from, char *to)
{
	struct iovec local = {to, PAGE}, remote = {(void *)(uintptr_t)from, PAGE};

	return process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)PAGE;
}

static bool read_file(pid_t process, const char *from, char *to)
{
	static int fd = -1;
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/mem", process);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return pread(fd, to, PAGE, (off_t)(uintptr_t)from) == (ssize_t)PAGE;
}

static struct seen inspect(pid_t process, const char *memory, size_t size,
			   bool (*read_page)(pid_t, const char *, char *))
{
	static char page[PAGE] __attribute__((aligned(8)));
	struct seen seen = {0};

	for (size_t at = 0; at < size; at += PAGE) {
		if (!read_page(process, memory + at, page))
			seen.refused++;
		else if (wrong(page, PAGE, 1, at))
			seen.wrong++;
		else
			seen.right++;
	}
	return seen;
}

/*
 * The main loop of a process without far memory. Reads addresses from @questions, and writes the results to @answers.
 */
static void inspector(int questions, int answers, pid_t process, size_t size)
{
	char *memory;

	while (read(questions, &memory, sizeof memory) == (ssize_t)sizeof memory) {
		const struct seen seen[2] = {inspect(process, memory, size, read_file),
					     inspect(process, memory, size, read_call)};

		if (write(answers, seen, sizeof seen) != (ssize_t)sizeof seen)
			break;
	}
	_exit(0);
}

int main(void)
{
	int questions[2], answers[2];
	size_t size = victim_size();
	struct seen seen[2] = {{0}};
	pid_t self = getpid();

	if (pipe(questions) || pipe(answers))
		return 1;
	if (fork() == 0) {
		close(questions[1]);
		inspector(questions[0], answers[1], self, size);
	}
	char *memory = map_memory(size);
	fill(memory, size, 1);
	ok(write(questions[1], &memory, sizeof memory) == (ssize_t)sizeof memory &&
	       read(answers[0], seen, sizeof seen) == (ssize_t)sizeof seen,
	   "another process tries to read every page");
	printf("# /proc/PID/mem: %zu pages right, %zu refused\n", seen[0].right, seen[0].refused);
	ok(!seen[0].wrong, "a read of /proc/PID/mem never gives wrong contents (%zu pages wrong)", seen[0].wrong);
	ok(seen[0].right > 0, "a read of /proc/PID/mem gives the contents of resident pages");
	ok(seen[1].right == size / PAGE, "process_vm_readv() reads every page (%zu wrong, %zu refused)", seen[1].wrong,
	   seen[1].refused);
	close(questions[1]);
	wait(NULL);
	return tap_done();
}
