/*
 * doctor_faults: see doctor_faults.h. The trial treats one page of this process like a page of far memory. It leaves
 * out the fault itself, which would need a second thread.
 */
#include "cli/doctor/doctor_faults.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/facts.h"
#include "pager/uffd.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char not_client[] = "not asked for: a donor does without";

struct doctor_verdict doctor_judge_right(const struct uffd_facts *facts, bool client)
{
	static const char why[] = "pages that are not here are fetched by userfaultfd; without it farpage run does not "
				  "start";
	struct doctor_verdict verdict;

	if (!client)
		return doctor_judged(DOCTOR_SKIP, why, "%s", not_client);
	if (!facts->open) {
		const char *how = facts->unprivileged == 1 ? "vm.unprivileged_userfaultfd is 1"
				  : facts->ptrace          ? "CAP_SYS_PTRACE"
				  : facts->device == 0     ? "/dev/userfaultfd"
							   : "this kernel asks for no right";

		return doctor_judged(DOCTOR_PASS, why, "may be used (%s)", how);
	}
	if (facts->open == -ENOSYS) {
		verdict = doctor_judged(DOCTOR_FAIL, why, "this kernel has no userfaultfd");
		doctor_mend(&verdict,
			    "a kernel of Linux 5.7 or newer with CONFIG_USERFAULTFD; some containers hide the "
			    "system call: allow it in their seccomp profile");
		return verdict;
	}
	if (facts->open != -EPERM && facts->open != -EACCES) {
		verdict = doctor_judged(DOCTOR_FAIL, why, "userfaultfd does not work: %s", strerror(-facts->open));
		if (facts->open == -EINVAL)
			doctor_mend(&verdict, "a kernel of Linux 5.7 or newer, on x86-64 or arm64: it lacks "
					      "write-protection");
		return verdict;
	}
	verdict = doctor_judged(DOCTOR_FAIL, why, "no right to use it%s",
				facts->device == -ENOENT ? " (and no /dev/userfaultfd)" : "");
	doctor_mend(&verdict, "as root: sysctl vm.unprivileged_userfaultfd=1%s; or run farpage as root",
		    facts->device == -ENOENT ? "" : ", or setfacl -m u:USER:rw /dev/userfaultfd");
	return verdict;
}

struct doctor_verdict doctor_judge_paging(const struct uffd_facts *facts, bool client)
{
	static const char why[] = "only UFFDIO_MOVE (Linux 6.8) can tell a page that a device writes to (O_DIRECT, "
				  "io_uring) from others; a lost page is marked by UFFDIO_POISON (6.6)";
	struct doctor_verdict verdict;

	if (!client)
		return doctor_judged(DOCTOR_SKIP, why, "%s", not_client);
	if (facts->open)
		return doctor_judged(DOCTOR_SKIP, why, "userfaultfd cannot be used");
	if (facts->place || facts->take)
		return doctor_judged(DOCTOR_FAIL, why, "a page could not be %s: %s",
				     facts->place ? "placed" : "taken away",
				     strerror(-(facts->place ? facts->place : facts->take)));
	if (facts->moves && facts->poisons)
		return doctor_judged(DOCTOR_PASS, why,
				     "pages can be placed, write-protected, moved away, and poisoned");
	verdict =
	    doctor_judged(facts->moves ? DOCTOR_WARN : DOCTOR_FAIL, why, "%s%s%s",
			  facts->moves ? "" : "no UFFDIO_MOVE: farpage run wants --unsafe-dio",
			  facts->moves || facts->poisons ? "" : "; ",
			  facts->poisons ? "" : "no UFFDIO_POISON: a lost page is told by a signal to the thread");
	doctor_mend(&verdict, "a kernel of Linux 6.8 or newer (Debian 12: linux-image-6.12-amd64)");
	return verdict;
}

struct doctor_verdict doctor_judge_forks(const struct uffd_facts *facts, bool client)
{
	static const char why[] = "a child that goes on without exec has its snapshot of far memory only if the kernel "
				  "tells the pager of the fork (CAP_SYS_PTRACE)";
	struct doctor_verdict verdict;

	if (!client)
		return doctor_judged(DOCTOR_SKIP, why, "%s", not_client);
	if (facts->open)
		return doctor_judged(DOCTOR_SKIP, why, "userfaultfd cannot be used");
	if (facts->sees_forks)
		return doctor_judged(DOCTOR_PASS, why, "forks are seen");
	verdict = doctor_judged(DOCTOR_WARN, why, "forks are not seen: children must exec, or die at far pages");
	doctor_mend(&verdict, "run farpage as root, or with CAP_SYS_PTRACE, if the program forks without exec");
	return verdict;
}

/* Places a page, write-protects it, and takes it away. @memory: two pages; pages are taken away to the second one.
   Sets facts->place and facts->take. */
static void page_try(const struct uffd *uffd, char *memory, size_t page, struct uffd_facts *facts)
{
	static const char mark[] = "farpage doctor";
	char *source = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (source == MAP_FAILED) {
		facts->place = -ENOMEM;
		return;
	}
	memcpy(source, mark, sizeof mark);
	facts->place = uffd_copy(uffd->fd, memory, source, page, NULL);
	munmap(source, page);
	if (!facts->place && memcmp(memory, mark, sizeof mark) != 0)
		facts->place = -EIO;
	if (!facts->place)
		facts->place = uffd_protect(uffd, memory, page, true);
	if (!facts->place)
		facts->place = uffd_protect(uffd, memory, page, false);
	if (facts->place || !facts->moves)
		return;
	ssize_t moved = uffd_take(uffd, memory + page, memory, page);
	facts->take = moved < 0 ? (int)moved : 0;
	if (!facts->take && memcmp(memory + page, mark, sizeof mark) != 0)
		facts->take = -EIO;
}

static void uffd_read_facts(struct uffd_facts *facts)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t number = 0;
	struct uffd uffd;
	int error = facts_number("/proc/sys/vm/unprivileged_userfaultfd", &number);

	*facts = (struct uffd_facts){.device = facts_open("/dev/userfaultfd"),
				     .unprivileged = error ? error : (int64_t)number,
				     .ptrace = facts_capable(CAP_SYS_PTRACE)};
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		facts->open = -ENOMEM;
		return;
	}
	facts->open = uffd_open(memory, page, memory + page, page, &uffd);
	if (!facts->open) {
		facts->moves = uffd.mover >= 0;
		facts->poisons = uffd.can_poison;
		facts->sees_forks = uffd.sees_forks;
		page_try(&uffd, memory, page, facts);
		uffd_close(&uffd);
	}
	munmap(memory, 2 * page);
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void judge(struct doctor *doctor, struct doctor_verdict (*verdict_of)(const struct uffd_facts *, bool))
{
	struct uffd_facts facts;

	uffd_read_facts(&facts);
	struct doctor_verdict verdict = verdict_of(&facts, doctor->client);
	doctor_add(doctor, NULL, &verdict);
}

void doctor_faults_right(struct doctor *doctor)
{
	judge(doctor, doctor_judge_right);
}

void doctor_faults_paging(struct doctor *doctor)
{
	judge(doctor, doctor_judge_paging);
}

void doctor_faults_forks(struct doctor *doctor)
{
	judge(doctor, doctor_judge_forks);
}
