/* doctor_memory: how much memory may be pinned, and how this host deals it out. */
#ifndef CLI_DOCTOR_MEMORY_H
#define CLI_DOCTOR_MEMORY_H

#include "cli/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* What the pager registers with an RDMA device at most: its victim buffer (1/16 of --local, up to 64M) and frames. */
#define DOCTOR_CLIENT_PINS (UINT64_C(68) << 20)

struct memlock_facts {
	uint64_t limit;  /* RLIMIT_MEMLOCK, bytes; UINT64_MAX: none */
	bool capable;    /* CAP_IPC_LOCK: the limit does not count */
	bool rdma;       /* there is a device; tcp:// pins nothing */
	bool client;     /* this host is to run programs */
	uint64_t donate; /* bytes to lend; 0: no donor */
};
struct doctor_verdict doctor_judge_memlock(const struct memlock_facts *facts);
struct doctor_verdict doctor_judge_donate(const struct memlock_facts *facts);

/* @setting: what /sys/kernel/mm/transparent_hugepage/enabled reads, "always [madvise] never"; NULL: no such file. */
struct doctor_verdict doctor_judge_huge(const char *setting);

struct hugetlb_facts {
	uint64_t page_bytes;    /* 0: the kernel has none */
	uint64_t total, unused; /* pages */
	uint64_t donate;
};
struct doctor_verdict doctor_judge_hugetlb(const struct hugetlb_facts *facts);

/* @mode: vm.overcommit_memory; negative: -errno of reading it. */
struct doctor_verdict doctor_judge_overcommit(int64_t mode);
struct doctor_verdict doctor_judge_maps(int64_t max_map_count);
/* @limit: of this control group and those above, bytes; UINT64_MAX: none. @total, @available: MemTotal, MemAvailable,
 * bytes. */
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
