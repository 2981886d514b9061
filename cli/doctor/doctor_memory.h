/* doctor_memory: checks how much memory may be pinned, and how this host allots memory. */
#ifndef CLI_DOCTOR_MEMORY_H
#define CLI_DOCTOR_MEMORY_H

#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* The most memory that the pager registers with an RDMA device: the victim buffer (1/16 of --local, up to 64 MiB)
   and frames. */
#define DOCTOR_CLIENT_PINS (UINT64_C(68) << 20)

struct memlock_facts {
	uint64_t limit;  /* RLIMIT_MEMLOCK in bytes, or UINT64_MAX if unlimited */
	bool capable;    /* CAP_IPC_LOCK, which lifts the limit */
	bool rdma;       /* there is an RDMA device; tcp:// pins nothing */
	bool client;     /* this host should be able to run programs */
	uint64_t donate; /* bytes to lend, or 0 if this host is not a donor */
};
struct doctor_verdict doctor_judge_memlock(const struct memlock_facts *facts);
struct doctor_verdict doctor_judge_donate(const struct memlock_facts *facts);

/* @setting: contents of /sys/kernel/mm/transparent_hugepage/enabled, "always [madvise] never", or NULL if there is
   no such file. */
struct doctor_verdict doctor_judge_huge(const char *setting);

struct hugetlb_facts {
	uint64_t page_bytes;    /* 0 if the kernel has no hugetlb pages */
	uint64_t total, unused; /* pages */
	uint64_t donate;
};
struct doctor_verdict doctor_judge_hugetlb(const struct hugetlb_facts *facts);

/* @mode: vm.overcommit_memory, or -errno of reading it. @max_map_count: likewise. */
struct doctor_verdict doctor_judge_overcommit(int64_t mode);
struct doctor_verdict doctor_judge_maps(int64_t max_map_count);
/* @limit: what this control group and those above may use without being slowed down, in bytes, or UINT64_MAX for no
   limit. @total, @available: MemTotal and MemAvailable in bytes. @donate: bytes to lend. */
struct doctor_verdict doctor_judge_room(uint64_t limit, uint64_t total, uint64_t available, uint64_t donate);

struct doctor;
void doctor_memory_lock(struct doctor *doctor);
void doctor_memory_donate(struct doctor *doctor);
void doctor_memory_huge(struct doctor *doctor);
void doctor_memory_hugetlb(struct doctor *doctor);
void doctor_memory_overcommit(struct doctor *doctor);
void doctor_memory_maps(struct doctor *doctor);
void doctor_memory_room(struct doctor *doctor);

#endif
