/* doctor_kernel: see doctor_kernel.h. */
#include "cli/doctor/doctor_kernel.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/facts.h"
#include "client/page/seal.h"
#include "common/clock.h"
#include "farpage/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CLOCK_ROUNDS 10
#define CLOCK_READINGS 100
#define CLOCK_SLOW_NS 500 /* a slower reading is a system call or goes to a device */
#define SEAL_ROUNDS 50
#define SEAL_SLOW_NS 5000 /* a page takes 1 us with AES instructions (measured), 15 us in software */

struct doctor_verdict doctor_judge_version(const char *release)
{
	static const char why[] = "paging needs Linux 5.7 (write-protection); 6.8 (UFFDIO_MOVE) makes direct I/O safe";
	unsigned major = 0, minor = 0;
	struct doctor_verdict verdict;

	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return doctor_judged(DOCTOR_WARN, why, "not a version: %s", release);
	if (major > 6 || (major == 6 && minor >= 8))
		return doctor_judged(DOCTOR_PASS, why, "Linux %s", release);
	verdict = doctor_judged(major > 5 || (major == 5 && minor >= 7) ? DOCTOR_WARN : DOCTOR_FAIL, why, "Linux %s",
				release);
	doctor_mend(&verdict, "a kernel of Linux 6.8 or newer (Debian 12: linux-image-amd64 of bookworm-backports)");
	return verdict;
}

struct doctor_verdict doctor_judge_ring(int error, int64_t disabled)
{
	static const char why[] =
	    "tcp:// waits for its sockets in one system call with io_uring, and falls back to epoll";
	struct doctor_verdict verdict;

	if (!error)
		return doctor_judged(DOCTOR_PASS, why, "io_uring works");
	verdict = doctor_judged(DOCTOR_WARN, why, "no io_uring (%s): epoll is used instead", strerror(-error));
	if (disabled > 0)
		doctor_mend(&verdict, "as root: sysctl kernel.io_uring_disabled=0");
	else if (error == -EPERM)
		doctor_mend(&verdict, "some containers hide the system call: allow it in their seccomp profile");
	else if (error == -EINVAL || error == -ENOSYS)
		doctor_mend(&verdict, "a kernel of Linux 5.19 or newer with CONFIG_IO_URING");
	return verdict;
}

struct doctor_verdict doctor_judge_madvise(int error)
{
	static const char why[] = "drops scattered pages in one call; farpage does without, run by run";

	return error ? doctor_judged(DOCTOR_PASS, why, "process_madvise cannot drop own pages here (%s)",
				     strerror(-error))
		     : doctor_judged(DOCTOR_PASS, why, "process_madvise can drop own pages");
}

struct doctor_verdict doctor_judge_pressure(int error)
{
	static const char why[] = "tells how much this host waits for memory; for watching, farpage does without";

	return error ? doctor_judged(DOCTOR_SKIP, why, "no /proc/pressure/memory (%s)", strerror(-error))
		     : doctor_judged(DOCTOR_PASS, why, "/proc/pressure/memory is there");
}

struct doctor_verdict doctor_judge_cpus(const struct cpu_facts *facts)
{
	static const char why[] = "the threads that fetch and evict share the processors with the program";
	/* The "powersave" governor of these drivers raises the frequency as needed. */
	bool dynamic = strncmp(facts->driver, "intel_pstate", 12) == 0 || strncmp(facts->driver, "amd-pstate", 10) == 0;
	const char *guest = facts->guest ? ", of a virtual machine: waking another one takes long" : "";
	struct doctor_verdict verdict;

	if (facts->count < 2)
		return doctor_judged(DOCTOR_WARN, why, "one processor%s", facts->guest ? ", of a virtual machine" : "");
	if (strcmp(facts->governor, "powersave") == 0 && !dynamic) {
		verdict = doctor_judged(DOCTOR_WARN, why, "%u processors, kept at their lowest frequency (powersave)%s",
					facts->count, guest);
		doctor_mend(&verdict, "as root: for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do "
				      "echo performance > $g; done");
		return verdict;
	}
	return doctor_judged(DOCTOR_PASS, why, "%u processors%s", facts->count, guest);
}

struct doctor_verdict doctor_judge_clock(const char *source, uint64_t reading_ns)
{
	static const char why[] = "deadlines, spinning and the measuring of each fault read the clock";
	struct doctor_verdict verdict;

	if (!*source)
		source = "unknown source";
	if (reading_ns < CLOCK_SLOW_NS)
		return doctor_judged(DOCTOR_PASS, why, "%s, %llu ns a reading", source, (unsigned long long)reading_ns);
	verdict = doctor_judged(DOCTOR_WARN, why, "%s, %llu ns a reading, which is slow", source,
				(unsigned long long)reading_ns);
	doctor_mend(&verdict,
		    "if /sys/devices/system/clocksource/clocksource0/available_clocksource has tsc or kvm-clock, "
		    "echo it into current_clocksource");
	return verdict;
}

struct doctor_verdict doctor_judge_seal(uint64_t page_ns)
{
	static const char why[] = "with --encrypt each page is encrypted as it leaves, and opened as it comes";
	struct doctor_verdict verdict;

	if (!page_ns) {
		verdict = doctor_judged(DOCTOR_WARN, why, "no AES-256-GCM: --encrypt does not work");
		doctor_mend(&verdict, "OpenSSL 3 (Debian: apt install libssl3)");
		return verdict;
	}
	if (page_ns < SEAL_SLOW_NS)
		return doctor_judged(DOCTOR_PASS, why, "AES-256-GCM, %.1f us a page", (double)page_ns / 1e3);
	return doctor_judged(DOCTOR_WARN, why, "AES-256-GCM, %.1f us a page, which is slow: no AES instructions?",
			     (double)page_ns / 1e3);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

int doctor_ring_try(void)
{
	struct io_uring_params parameters = {.flags = IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL |
						      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);

	if (fd < 0)
		return -errno;
	close(fd);
	return parameters.features & IORING_FEAT_EXT_ARG ? 0 : -EINVAL;
}

static int madvise_try(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct iovec range = {.iov_len = page};
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), error = 0;

	if (self < 0)
		return -errno;
	range.iov_base = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (range.iov_base == MAP_FAILED) {
		close(self);
		return -ENOMEM;
	}
	if (syscall(SYS_process_madvise, self, &range, 1, MADV_DONTNEED, 0) < 0)
		error = -errno;
	munmap(range.iov_base, page);
	close(self);
	return error;
}

static unsigned cpu_count(void)
{
	cpu_set_t set;
	long online;

	if (!sched_getaffinity(0, sizeof set, &set))
		return (unsigned)CPU_COUNT(&set);
	online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set has room for */
	return online > 0 ? (unsigned)online : 1;
}

/* Returns true if the processor's flags name a hypervisor. Works on x86 only. */
static bool cpu_is_virtual(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[8192];
	bool found = false;

	if (!file)
		return false;
	while (fgets(line, sizeof line, file)) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		found = strstr(line, " hypervisor") != NULL;
		break;
	}
	fclose(file);
	return found;
}

/* Returns the ns of one reading, the best of several rounds. In other rounds this process may have waited for a
   processor. */
static uint64_t clock_reading_ns(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned round = 0; round < CLOCK_ROUNDS; round++) {
		uint64_t start = clock_now(), end = start;

		for (unsigned i = 0; i < CLOCK_READINGS; i++)
			end = clock_now();
		best = end - start < best ? end - start : best;
	}
	return best / CLOCK_READINGS;
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void add(struct doctor *doctor, struct doctor_verdict verdict)
{
	doctor_add(doctor, NULL, &verdict);
}

void doctor_kernel_version(struct doctor *doctor)
{
	struct utsname name = {0};

	uname(&name);
	add(doctor, doctor_judge_version(name.release));
}

void doctor_kernel_ring(struct doctor *doctor)
{
	uint64_t disabled = 0;
	int error = facts_number("/proc/sys/kernel/io_uring_disabled", &disabled);

	add(doctor, doctor_judge_ring(doctor_ring_try(), error ? error : (int64_t)disabled));
}

void doctor_kernel_madvise(struct doctor *doctor)
{
	add(doctor, doctor_judge_madvise(madvise_try()));
}

void doctor_kernel_pressure(struct doctor *doctor)
{
	char text[16]; /* if PSI is disabled, the file exists but cannot be read */

	add(doctor, doctor_judge_pressure(facts_text("/proc/pressure/memory", text, sizeof text)));
}

void doctor_cpu_count(struct doctor *doctor)
{
	struct cpu_facts facts = {.count = cpu_count(), .guest = cpu_is_virtual()};

	facts_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", facts.governor, sizeof facts.governor);
	facts_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", facts.driver, sizeof facts.driver);
	add(doctor, doctor_judge_cpus(&facts));
}

void doctor_cpu_clock(struct doctor *doctor)
{
	char source[64];

	facts_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
	add(doctor, doctor_judge_clock(source, clock_reading_ns()));
}

/* Returns the ns to encrypt a page, the best of several rounds, or 0 if pages cannot be encrypted. */
static uint64_t seal_page_ns(void)
{
	static uint8_t page[STORE_PAGE], sealed[STORE_PAGE];
	static const uint8_t key[SEAL_KEY_SIZE]; /* all zeroes; the sealed page is discarded */
	static _Atomic uint64_t numbers;
	struct seal_place place = {0};
	struct seal_record record;
	uint64_t best = UINT64_MAX;
	struct seal *seal;

	if (!seal_find() || seal_open(key, &numbers, &seal) < 0)
		return 0;
	for (unsigned i = 0; i < SEAL_ROUNDS; i++) {
		uint64_t begin = clock_now(), took;

		seal_encrypt(seal, &place, page, sealed, &record);
		took = clock_now() - begin;
		if (took < best)
			best = took;
	}
	seal_close(seal);
	return best ? best : 1;
}

void doctor_cpu_seal(struct doctor *doctor)
{
	add(doctor, doctor_judge_seal(seal_page_ns()));
}
