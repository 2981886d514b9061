/*
 * doctor_faults: checks whether programs can have far memory on this host. It uses userfaultfd as the pager does
 * (pager/uffd.h), on one page of this process. It does not try a fault, which would need a second thread.
 */
#include "cli/doctor/internal.h"
#include "pager/uffd.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct verdict doctor_faults_right(const struct host *host)
{
	bool no_device = host->uffd.device == -ENOENT;
	int error = host->uffd.open;

	if (!error)
		return PASS("may be used (%s)", host->uffd.unprivileged == 1     ? "vm.unprivileged_userfaultfd is 1"
						: host_may(host, CAP_SYS_PTRACE) ? "CAP_SYS_PTRACE"
						: !host->uffd.device             ? "/dev/userfaultfd"
										 : "this kernel asks for no right");
	if (host->filtered && no_device && (error == -EPERM || error == -ENOSYS))
		return FAIL("no right to use it, and no /dev/userfaultfd\n"
			    "in a container: start it with --device /dev/userfaultfd");
	if (error == -ENOSYS)
		return FAIL("this kernel has no userfaultfd\n"
			    "a kernel of Linux 5.7 or newer with CONFIG_USERFAULTFD");
	if (error != -EPERM && error != -EACCES)
		return FAIL("userfaultfd does not work: %s%s", strerror(-error),
			    error != -EINVAL
				? ""
				: "\na kernel of Linux 5.7 or newer, on x86-64 or arm64: it lacks write-protection");
	return FAIL("no right to use it%s\n"
		    "as root: sysctl vm.unprivileged_userfaultfd=1%s; or run farpage as root",
		    no_device ? " (and no /dev/userfaultfd)" : "",
		    no_device ? "" : ", or setfacl -m u:USER:rw /dev/userfaultfd");
}

struct verdict doctor_faults_paging(const struct host *host)
{
	bool moves = host->uffd.moves, poisons = host->uffd.poisons;

	if (host->uffd.open)
		return SKIP("userfaultfd cannot be used");
	if (host->uffd.place)
		return FAIL("a page could not be placed: %s\n", strerror(-host->uffd.place));
	if (host->uffd.take)
		return FAIL("a page could not be taken away: %s\n", strerror(-host->uffd.take));
	if (moves && poisons)
		return PASS("pages can be placed, write-protected, moved away, and poisoned");
	return verdict_of(moves ? WARN : FAIL, "%s%s%s", moves ? "" : "no UFFDIO_MOVE: farpage run wants --unsafe-dio",
			  moves || poisons ? "" : "; ",
			  poisons ? "" : "no UFFDIO_POISON: a thread that touches a lost page gets a signal");
}

struct verdict doctor_faults_forks(const struct host *host)
{
	if (host->uffd.open)
		return SKIP("userfaultfd cannot be used");
	if (host->uffd.sees_forks)
		return PASS("forks are seen");
	return WARN("forks are not seen: a child must call exec, or dies when it touches a far page");
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Places a page, write-protects it, and takes it away. @memory has three pages: the page, its place in the landing
   area, and its contents. */
static void page_try(struct host *host, const struct uffd *uffd, char *memory, size_t page)
{
	static const char mark[] = "farpage doctor";
	char *there = memory + page, *source = there + page;
	int *place = &host->uffd.place;
	ssize_t moved;

	memcpy(source, mark, sizeof mark);
	*place = uffd_copy(uffd->fd, memory, source, page, NULL);
	if (!*place && memcmp(memory, mark, sizeof mark) != 0)
		*place = -EIO;
	if (!*place)
		*place = uffd_protect(uffd, memory, page, true);
	if (!*place)
		*place = uffd_protect(uffd, memory, page, false);
	if (*place || !host->uffd.moves)
		return;
	moved = uffd_take(uffd, there, memory, page);
	host->uffd.take = moved < 0 ? (int)moved : memcmp(there, mark, sizeof mark) ? -EIO : 0;
}

void doctor_faults_read(struct host *host)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffd uffd;

	host->uffd.device = facts_open("/dev/userfaultfd");
	host->uffd.unprivileged = facts_number("/proc/sys/vm/unprivileged_userfaultfd");
	host->uffd.open = memory == MAP_FAILED ? -ENOMEM : uffd_open(memory, page, memory + page, page, &uffd);
	if (!host->uffd.open) {
		host->uffd.moves = uffd.mover >= 0;
		host->uffd.poisons = uffd.can_poison;
		host->uffd.sees_forks = uffd.sees_forks;
		page_try(host, &uffd, memory, page);
		uffd_close(&uffd);
	}
	if (memory != MAP_FAILED)
		munmap(memory, 3 * page);
}
