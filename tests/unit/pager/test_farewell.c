/* The pager brings the far pages of forked children back before the program exits. */
#include "common/machine.h"
#include "pager/pass.h"
#include "tests/lib/tap.h"
#include "tests/unit/pager/pager_over.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define LOCAL (8 * MIB)
#define BYTES (24 * MIB)
#define PAGES (BYTES / STORE_PAGE)
#define CHANGED (PAGES / 3) /* the program changes the pages before this one after the fork */

/* Exit statuses of a child. */
enum { RIGHT, NOT_TOLD, ABSENT, WRONG, BROKEN };

static uint64_t machine_available; /* bytes */

int __wrap_machine_memory_read(struct machine_memory *ret_memory);
int __wrap_machine_memory_read(struct machine_memory *ret_memory)
{
	*ret_memory = (struct machine_memory){.total = UINT64_MAX, .available = machine_available};
	return 0;
}

static void number_pages(char *memory, uint64_t first, uint64_t end, uint64_t plus)
{
	for (uint64_t page = first; page < end; page++)
		*(uint64_t *)(void *)(memory + page * STORE_PAGE) = page + plus;
}

static bool all_present(char *memory)
{
	static unsigned char present[PAGES];
	uint64_t count = 0;

	if (mincore(memory, BYTES, present))
		return false;
	for (uint64_t page = 0; page < PAGES; page++)
		count += present[page] & 1;
	return count == PAGES;
}

/* Receives a message of the kind @what. Returns false at the end of the socket. */
static bool await_message(int socket, enum pass what)
{
	struct pollfd wanted = {.fd = socket, .events = POLLIN};
	struct pass_message message;
	int got;

	do {
		poll(&wanted, 1, -1);
		got = pass_receive(socket, &message);
	} while (got != (int)what && got > 0);
	return got == (int)what;
}

static int child_main(char *memory, int socket, bool answers)
{
	if (!await_message(socket, PASS_SERVED) || !await_message(socket, PASS_LOCAL))
		return NOT_TOLD;
	if (!all_present(memory))
		return ABSENT;
	for (uint64_t page = 0; page < PAGES; page++)
		if (*(uint64_t *)(void *)(memory + page * STORE_PAGE) != page + 1)
			return WRONG;
	if (answers && pass_send(socket, PASS_LOCAL, &(struct pass_message){.fd = -1}))
		return BROKEN;
	return RIGHT;
}

static pid_t fork_child(struct over *over, char *memory, bool answers)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) ||
	    !pager_fork_announce(over->farpage, sockets[1]))
		tap_bail("no fork can be announced");
	pid_t child = fork();
	if (child == 0) {
		close(sockets[1]);
		_exit(child_main(memory, sockets[0], answers));
	}
	close(sockets[0]);
	pager_fork_await(over->farpage);
	return child;
}

static char *open_and_fill(struct over *over, const struct store_faults *faults)
{
	if (over_open(over, LOCAL, 64 * MIB, faults))
		tap_bail("no pager");
	char *memory = over_map(over, BYTES);
	number_pages(memory, 0, PAGES, 1);
	machine_available = UINT64_MAX;
	return memory;
}

/* Returns the exit status of @child, after the pager has ended. */
static int status_after(struct over *over, pid_t child)
{
	int status;

	farpage_unmap(over->farpage, over->window.base, BYTES);
	over_close(over);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void children_have_all_pages(void)
{
	struct over over;
	char *memory = open_and_fill(&over, NULL);
	pid_t first = fork_child(&over, memory, true), second = fork_child(&over, memory, true);
	int status;

	number_pages(memory, 0, CHANGED, 100);
	farpage_advise(over.farpage, memory, CHANGED * STORE_PAGE, FARPAGE_PAGEOUT);
	pager_farewell(over.farpage);
	ok(waitpid(first, &status, 0) == first && status == RIGHT,
	   "before the program exits, a child has all pages as they were at its fork, beyond its budget (status %d)",
	   status);
	status = status_after(&over, second);
	ok(status == RIGHT, "a second child has them, too (status %d)", status);
}

static void a_silent_child_is_left_out(void)
{
	struct over over;
	char *memory = open_and_fill(&over, NULL);
	pid_t child = fork_child(&over, memory, false);

	kill(child, SIGSTOP);
	pager_farewell(over.farpage);
	ok(true, "the program does not wait for ever for a child that is stopped");
	kill(child, SIGCONT);
	int status = status_after(&over, child);
	ok(status == RIGHT, "such a child finds all pages when it continues (status %d)", status);
}

static void a_child_with_a_lost_page_is_not_told(void)
{
	const struct store_faults faults = {.seed = 1, .read_error = UINT16_MAX};
	struct over over;
	char *memory = open_and_fill(&over, &faults);
	pid_t child = fork_child(&over, memory, true);

	pager_farewell(over.farpage);
	int status = status_after(&over, child);
	ok(status == NOT_TOLD, "a child with a lost page is not told that all pages are local (status %d)", status);
}

static void nothing_comes_back_without_memory(void)
{
	struct over over;
	char *memory = open_and_fill(&over, NULL);
	pid_t child = fork_child(&over, memory, true);

	machine_available = MIB;
	pager_farewell(over.farpage);
	int status = status_after(&over, child);
	ok(status == NOT_TOLD, "no page comes back if this machine does not have the memory (status %d)", status);
}

static void nobody_waits_without_children(void)
{
	struct over over;

	open_and_fill(&over, NULL);
	pager_farewell(over.farpage);
	over_close(&over);
	ok(true, "a program without children does not wait");
}

int main(void)
{
	struct over over;

	if (!CAN_FORK)
		return tap_skip_all(CANNOT_FORK);
	if (userfaultfd_is_denied(over_open(&over, LOCAL, 16 * MIB, NULL)))
		return tap_skip_all("no right to userfaultfd");
	bool follows = pager_follows_forks(over.farpage);
	over_close(&over);
	if (!follows)
		return tap_skip_all("no right to follow forks");
	nobody_waits_without_children();
	children_have_all_pages();
	a_silent_child_is_left_out();
	a_child_with_a_lost_page_is_not_told();
	nothing_comes_back_without_memory();
	return tap_done();
}
