/* doctor_kernel: checks the kernel's version and features, the processors, the clock and encryption. */
#ifndef CLI_DOCTOR_KERNEL_H
#define CLI_DOCTOR_KERNEL_H

#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* @release: as from uname(2), "6.12.48-amd64". */
struct doctor_verdict doctor_judge_version(const char *release);

/* @error: 0, or -errno of setting up a ring as fabric/poller_ring.c does. @disabled: kernel.io_uring_disabled, or
   -errno. */
struct doctor_verdict doctor_judge_ring(int error, int64_t disabled);
/* Sets up a ring. Returns 0 or -errno, the @error above. */
int doctor_ring_try(void);

/* @error: 0 or -errno of process_madvise(MADV_DONTNEED) on this process, and of reading /proc/pressure/memory. */
struct doctor_verdict doctor_judge_madvise(int error);
struct doctor_verdict doctor_judge_pressure(int error);

struct cpu_facts {
	unsigned count; /* processors that this process may run on */
	bool guest;     /* this is a virtual machine */
	char governor[32], driver[32];
};
struct doctor_verdict doctor_judge_cpus(const struct cpu_facts *facts);
/* @source: the kernel's clock source, or empty. @reading_ns: the measured time of one reading. */
struct doctor_verdict doctor_judge_clock(const char *source, uint64_t reading_ns);

/* @page_ns: the measured time to encrypt a page, or 0 if pages cannot be encrypted. */
struct doctor_verdict doctor_judge_seal(uint64_t page_ns);

struct doctor;
void doctor_kernel_version(struct doctor *doctor);
void doctor_kernel_ring(struct doctor *doctor);
void doctor_kernel_madvise(struct doctor *doctor);
void doctor_kernel_pressure(struct doctor *doctor);
void doctor_cpu_count(struct doctor *doctor);
void doctor_cpu_clock(struct doctor *doctor);
void doctor_cpu_seal(struct doctor *doctor);

#endif
