/* uffd: the kernel's answers that the pager relies on. */
#include "client/store.h"
#include "pager/uffd.h"
#include "tests/lib/tap.h"
#include "userfaultfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 32, LANDING = 8 };

static struct uffd uffd;
static char *memory, *landing;

static char *at(unsigned page)
{
	return memory + (size_t)page * STORE_PAGE;
}

static void *map(size_t pages)
{
	void *address = mmap(NULL, pages * STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (address == MAP_FAILED)
		tap_bail("no memory");
	return address;
}

static int begin(void)
{
	memory = map(PAGES);
	landing = map(LANDING);
	return uffd_open(memory, PAGES * STORE_PAGE, landing, LANDING * STORE_PAGE, &uffd);
}

static void end(void)
{
	uffd_close(&uffd);
	munmap(memory, PAGES * STORE_PAGE);
	munmap(landing, LANDING * STORE_PAGE);
}

/* Places @count pages full of @byte from page @page on. */
static int place(unsigned page, unsigned count, char byte, size_t *ret_done)
{
	static char data[PAGES * STORE_PAGE];

	memset(data, byte, count * STORE_PAGE);
	return uffd_copy(uffd.fd, at(page), data, count * STORE_PAGE, ret_done);
}

/* Returns the number of messages, once there are some. */
static int next_message(struct uffd_message *ret_message)
{
	struct pollfd fault = {.fd = uffd.fd, .events = POLLIN};

	poll(&fault, 1, 30000);
	return uffd_read(uffd.fd, ret_message, 1);
}

/* A thread that reads a byte, and then writes it. */
struct toucher {
	pthread_t thread;
	char *address;
	bool reads, writes;
	_Atomic pid_t id;
	char found;
};

static void *touch(void *argument)
{
	struct toucher *toucher = argument;

	toucher->id = gettid();
	if (toucher->reads)
		toucher->found = __atomic_load_n(toucher->address, __ATOMIC_RELAXED);
	if (toucher->writes)
		__atomic_store_n(toucher->address, 'w', __ATOMIC_RELAXED);
	return NULL;
}

static void a_fault_tells_who_touched_what(void)
{
	struct uffd_message message = {0};
	struct toucher reader = {.address = at(3) + 77, .reads = true};
	struct toucher writer = {.address = at(5) + 9, .writes = true};

	ok(uffd_read(uffd.fd, &message, 1) == 0, "no message comes before memory is touched");
	pthread_create(&reader.thread, NULL, touch, &reader);
	bool came = next_message(&message) == 1 && message.kind == UFFD_MISSING;
	ok(came && !message.write && (message.address & ~(uintptr_t)(STORE_PAGE - 1)) == (uintptr_t)at(3),
	   "the message about a read of a missing page has its address");
	ok(message.thread == reader.id, "the message about a fault names its thread");
	size_t done = 0;
	ok(place(3, 1, 'x', &done) == 0 && done == STORE_PAGE, "a page is placed");
	pthread_join(reader.thread, NULL);
	ok(reader.found == 'x', "placing a page wakes its reader, who finds the contents");
	pthread_create(&writer.thread, NULL, touch, &writer);
	came = next_message(&message) == 1 && message.kind == UFFD_MISSING;
	ok(came && message.write && message.thread == writer.id,
	   "the message about a write of a missing page says that it is a write");
	place(5, 1, 'y', NULL);
	pthread_join(writer.thread, NULL);
	ok(at(5)[9] == 'w' && at(5)[10] == 'y', "a writer's byte is added to the contents that were placed");
}

static void placing_stops_at_what_is_there(void)
{
	size_t done = 1;

	ok(place(3, 1, 'z', &done) == -EEXIST && done == 0 && at(3)[0] == 'x',
	   "placing a page that is present gets -EEXIST and changes nothing");
	ok(place(1, 4, 'a', &done) == -EEXIST && done == 2 * STORE_PAGE && at(1)[0] == 'a' &&
	       at(2)[STORE_PAGE - 1] == 'a',
	   "placing a run tells how many bytes came before a page that is present (%zu)", done);
	void *other = map(1);
	ok(uffd_copy(uffd.fd, other, memory, STORE_PAGE, &done) == -ENOENT && done == 0,
	   "placing a page in memory that is not registered gets -ENOENT");
	munmap(other, STORE_PAGE);
}

static void protected_pages_make_writers_wait(void)
{
	struct uffd_message message = {0};
	struct toucher writer = {.address = at(3), .reads = true, .writes = true};

	ok(uffd_protect(&uffd, at(3), STORE_PAGE, true) == 0, "a page is protected");
	pthread_create(&writer.thread, NULL, touch, &writer);
	bool came = next_message(&message) == 1 && message.kind == UFFD_PROTECTED;
	ok(came && message.write && message.thread == writer.id,
	   "the message about a write of a protected page says that it is a write");
	ok(__atomic_load_n(at(3), __ATOMIC_RELAXED) == 'x', "a protected page can be read, and has its contents");
	ok(uffd_protect(&uffd, at(3), STORE_PAGE, false) == 0, "a page is unprotected");
	pthread_join(writer.thread, NULL);
	ok(writer.found == 'x' && at(3)[0] == 'w', "unprotecting a page lets its writer go on");
}

static void poisoned_pages_cannot_be_read(void)
{
	int null = memfd_create("null", MFD_CLOEXEC);

	if (!uffd.can_poison) {
		ok(uffd_poison(&uffd, uffd.fd, at(20), STORE_PAGE) == -EOPNOTSUPP,
		   "a kernel that cannot poison gets -EOPNOTSUPP");
	} else {
		ok(uffd_poison(&uffd, uffd.fd, at(20), STORE_PAGE) == 0 && write(null, at(20), 1) == -1,
		   "a poisoned page cannot be read");
		place(21, 1, 'n', NULL);
		ok(write(null, at(21), 1) == 1, "the neighbour of a poisoned page can be read");
	}
	close(null);
}

static void pages_move_whole_or_stay(void)
{
	if (uffd.mover < 0) {
		ok(uffd_take(&uffd, landing, at(8), STORE_PAGE) == -EOPNOTSUPP,
		   "moving a page without UFFDIO_MOVE gets -EOPNOTSUPP");
		return;
	}
	place(8, 6, 'm', NULL);
	ok(uffd_take(&uffd, landing, at(8), 2 * STORE_PAGE) == 2 * STORE_PAGE && landing[STORE_PAGE] == 'm' &&
	       place(8, 2, 'M', NULL) == 0,
	   "pages move with their contents and leave room behind");
	ok(uffd_take(&uffd, landing, at(8), STORE_PAGE) == -EEXIST && at(8)[0] == 'M' && landing[0] == 'm',
	   "a page does not move onto another page");
	char *room = landing + 2 * STORE_PAGE;
	ok(uffd_take(&uffd, room, at(30), STORE_PAGE) == -ENOENT, "an absent page does not move");
	ok(uffd_take(&uffd, room, at(12), 4 * STORE_PAGE) == 2 * STORE_PAGE && room[STORE_PAGE] == 'm',
	   "a move stops at an absent page, and tells how much has moved");
	mprotect(at(11), STORE_PAGE, PROT_READ);
	room += 2 * STORE_PAGE;
	ok(uffd_take(&uffd, room, at(10), 2 * STORE_PAGE) == -EINVAL && at(10)[0] == 'm' && at(11)[0] == 'm',
	   "no page moves if the pages cross the edge of a mapping");
	ok(uffd_take(&uffd, room, at(11), STORE_PAGE) == -EINVAL && at(11)[0] == 'm',
	   "a page does not move to memory with another protection");
}

static void closing_wakes_who_waits(void)
{
	struct uffd_message message = {0};
	struct toucher reader = {.address = at(31), .reads = true, .found = 'o'};

	pthread_create(&reader.thread, NULL, touch, &reader);
	bool came = next_message(&message) == 1 && message.kind == UFFD_MISSING;
	uffd_close(&uffd);
	pthread_join(reader.thread, NULL);
	ok(came && reader.found == 0, "closing wakes a thread that waits, which reads zeroes");
	ok(uffd.fd == -1 && uffd.mover == -1, "closed descriptors are forgotten");
}

/* Has the kernel answer userfaultfd(2) of this process with @error. */
static int filter_set(unsigned error)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Returns 0 if uffd_new() works in a process whose userfaultfd(2) fails with @error, or else what it returns. */
static int new_under_filter(unsigned error)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		int fd = filter_set(error) ? -E2BIG : uffd_new(O_NONBLOCK);

		_exit(fd < 0 ? -fd : 0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* A container's filter hides userfaultfd(2), and the container may have been given the device. */
static void the_device_replaces_a_hidden_system_call(void)
{
	bool device = access("/dev/userfaultfd", R_OK | W_OK) == 0;

	ok(new_under_filter(EPERM) == (device ? 0 : -EPERM),
	   "a process to which a filter forbids userfaultfd has the device");
	ok(new_under_filter(ENOSYS) == (device ? 0 : -ENOSYS),
	   "a process from which a filter hides userfaultfd has the device");
	ok(strstr(uffd_lacks(-EPERM), "--device /dev/userfaultfd") &&
	       strstr(uffd_lacks(-ENOSYS), "--device /dev/userfaultfd"),
	   "the line about a lacking right names the device for containers");
	ok(!uffd_lacks(-EINVAL) && !uffd_lacks(3), "descriptors and other errors have no line about a lacking right");
}

int main(void)
{
	int fd = uffd_new(0);

	if (userfaultfd_is_denied(fd))
		return tap_skip_all("no right to userfaultfd");
	close(fd);
	the_device_replaces_a_hidden_system_call(); /* forks, so no memory may be registered yet */
	ok(begin() == 0, "memory and its landing area are registered");
	ok(uffd_can_move() == (uffd.mover >= 0), "a mover is open if the kernel can move pages");
	a_fault_tells_who_touched_what();
	placing_stops_at_what_is_there();
	protected_pages_make_writers_wait();
	poisoned_pages_cannot_be_read();
	pages_move_whole_or_stay();
	closing_wakes_who_waits();
	end();
	return tap_done();
}
