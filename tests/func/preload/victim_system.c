/* The kernel reads and writes far memory in system calls of the program. */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static size_t size;
static char *memory, *other;

/* Evicts all of `memory` by filling `other`, which is as large. */
static void push_out(void)
{
	fill(other, size, 99);
}

static void file_calls_use_far_memory(void)
{
	int fd = memfd_create("file", 0);
	size_t done = 0;

	fill(memory, size, 1);
	push_out();
	while (done < size) {
		ssize_t got = write(fd, memory + done, size - done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	ok(done == size, "write(2) writes all of far memory to a file");
	fill(memory, size, 2);
	push_out();
	for (done = 0; done < size;) {
		ssize_t got = pread(fd, memory + done, size - done, (off_t)done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	ok(done == size && !wrong(memory, size, 1, 0), "pread(2) into far memory brings the contents of a file");
	munmap(memory, size);
	memory = map_memory(size);
	done = 0;
	while (done < size) {
		ssize_t got = pread(fd, memory + done, size - done, (off_t)done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	ok(done == size && !wrong(memory, size, 1, 0), "pread(2) into untouched memory brings the contents of a file");
	close(fd);
}

static void vector_calls_use_far_memory(void)
{
	enum { PARTS = 16 };
	struct iovec parts[PARTS];
	int fd = memfd_create("file", 0);
	size_t each = MB / PARTS;
	fill(memory, size, 3);
	push_out();
	for (unsigned i = 0; i < PARTS; i++)
		parts[i] = (struct iovec){memory + i * (size / PARTS), each};
	ok(writev(fd, parts, PARTS) == (ssize_t)MB, "writev(2) writes parts of far memory");
	push_out();
	size_t bad = 0;
	for (unsigned i = 0; i < PARTS; i++)
		memset(parts[i].iov_base, 0, each);
	push_out();
	ok(preadv(fd, parts, PARTS, 0) == (ssize_t)MB, "preadv(2) reads into parts of far memory");
	for (unsigned i = 0; i < PARTS; i++)
		bad += wrong(parts[i].iov_base, each, 3, i * (size / PARTS));
	ok(!bad, "all parts that preadv(2) read hold the contents of the file");
	close(fd);
}

struct sending {
	int fd;
	size_t length;
};

static void *send_all(void *argument)
{
	struct sending *sending = argument;
	size_t done = 0;

	while (done < sending->length) {
		ssize_t got = write(sending->fd, memory + done, sending->length - done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	close(sending->fd);
	return NULL;
}

static void stream_carries_far_memory(const char *name, int from, int to)
{
	struct sending sending = {from, size};
	pthread_t thread;
	size_t done = 0;

	fill(memory, size, 4);
	memset(other, 0, size);
	pthread_create(&thread, NULL, send_all, &sending);
	for (ssize_t got; done < size && (got = read(to, other + done, size - done)) > 0;)
		done += (size_t)got;
	pthread_join(thread, NULL);
	close(to);
	ok(done == size && !wrong(other, size, 4, 0), "%s carries far memory into far memory", name);
}

static void pipe_and_socket_carry_far_memory(void)
{
	int fds[2];

	if (!pipe(fds))
		stream_carries_far_memory("a pipe", fds[1], fds[0]);
	if (!socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		stream_carries_far_memory("a socket", fds[1], fds[0]);
}

static void arguments_of_calls_are_in_far_memory(void)
{
	char *path = memory + size / 2;
	struct stat *status = (struct stat *)(memory + size / 4);

	push_out();
	fill(memory, size, 5);
	strcpy(path, "/proc/self/exe");
	push_out();
	ok(!stat(path, status) && S_ISREG(status->st_mode),
	   "stat(2) takes a path from far memory and puts its result there");
	struct pollfd *polls = (struct pollfd *)(memory + size / 8);
	int fds[2];
	if (pipe(fds))
		return;
	*polls = (struct pollfd){.fd = fds[1], .events = POLLOUT};
	push_out();
	ok(poll(polls, 1, 1000) == 1 && polls->revents == POLLOUT, "poll(2) reads and writes its array in far memory");
	close(fds[0]);
	close(fds[1]);
	uint32_t *word = (uint32_t *)(memory + size / 3 / 8 * 8);
	*word = 5;
	push_out();
	ok(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 6, NULL, NULL, 0) == -1 && errno == EAGAIN,
	   "futex(2) reads its word in far memory");
	ok(write(-1, memory, 1) == -1 && errno == EBADF, "write(2) of far memory to a bad descriptor fails with EBADF");
}

static void on_signal(int number)
{
	(void)number;
	memory[size / 5] = 'x';
}

static void signal_handler_runs_on_a_far_stack(void)
{
	stack_t stack = {.ss_sp = memory, .ss_size = 64 << 10}, none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	push_out();
	raise(SIGUSR1);
	ok(memory[size / 5] == 'x', "a signal handler runs with its stack in far memory");
	sigaltstack(&none, NULL);
}

static void stdio_works_with_far_memory(void)
{
	FILE *file = tmpfile();
	char *line = NULL;
	size_t room = 0, bad = 0;

	if (!file)
		return;
	for (unsigned i = 0; i < 100000; i++)
		fprintf(file, "line %u\n", i);
	push_out();
	rewind(file);
	for (unsigned i = 0; i < 100000; i++) {
		char expected[32];

		snprintf(expected, sizeof expected, "line %u\n", i);
		bad += getline(&line, &room, file) < 0 || strcmp(line, expected) != 0;
	}
	ok(!bad, "getline reads the lines that fprintf wrote");
	free(line);
	fclose(file);
}

int main(void)
{
	size = victim_size() / 2 / MB / 8 * 8 * MB;
	memory = map_memory(size);
	other = map_memory(size);
	file_calls_use_far_memory();
	vector_calls_use_far_memory();
	pipe_and_socket_carry_far_memory();
	arguments_of_calls_are_in_far_memory();
	signal_handler_runs_on_a_far_stack();
	stdio_works_with_far_memory();
	return tap_done();
}
