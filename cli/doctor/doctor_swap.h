/*
 * doctor_swap: checks whether this host suits a daemon that serves a swap device, and how the kernel would use the
 * device. doctor_safety.h draws the conclusion.
 */
#ifndef CLI_DOCTOR_SWAP_H
#define CLI_DOCTOR_SWAP_H

#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns the bytes of memory that the daemon of a full device of @bytes takes on this host. */
uint64_t doctor_daemon_bytes(uint64_t bytes);

struct swap_rights {
	bool admin;      /* CAP_SYS_ADMIN: may make devices and swap to them */
	bool locks;      /* may lock all of its memory, whatever the limit */
	int flusher;     /* 0 or -errno of PR_SET_IO_FLUSHER, which needs CAP_SYS_RESOURCE */
	bool spared;     /* CAP_SYS_RESOURCE: may ask the OOM killer to spare it */
	bool realtime;   /* CAP_SYS_NICE: may run before programs, and use memory that the kernel keeps free */
	uint64_t wanted; /* bytes of the requested swap device, or 0 for none */
};
struct doctor_verdict doctor_judge_swap_rights(const struct swap_rights *rights);

struct swap_group {
	uint64_t limit;  /* limit of the control group that the daemon would run in, in bytes, or UINT64_MAX for none */
	uint64_t unused; /* the part of the limit that is unused */
	bool own;        /* farpage swap on can make a group for the daemon alone */
	uint64_t wanted;
};
struct doctor_verdict doctor_judge_swap_group(const struct swap_group *group);

/* @mkswap: the program exists. @kernel: the kernel can swap. @wanted: bytes of the requested swap device, or 0. */
struct doctor_verdict doctor_judge_swap_tools(bool mkswap, bool kernel, uint64_t wanted);

/* @cluster: vm.page-cluster, or -errno of reading it. */
struct doctor_verdict doctor_judge_swap_readahead(int64_t cluster);

struct swap_space {
	uint64_t wanted;
	uint64_t available; /* MemAvailable of this host in bytes */
	unsigned donors;    /* donors that answered */
	uint64_t far;       /* bytes free on these donors */
};
struct doctor_verdict doctor_judge_swap_space(const struct swap_space *space);

struct doctor;
void doctor_rights_read(const struct doctor *doctor, struct swap_rights *ret_rights);
void doctor_group_read(const struct doctor *doctor, struct swap_group *ret_group);
/* Returns true if this host should only lend, and adds a finding that says so. Such a host does not need swap. */
bool doctor_skip_donor(struct doctor *doctor);
void doctor_swap_rights(struct doctor *doctor);
void doctor_swap_group(struct doctor *doctor);
void doctor_swap_tools(struct doctor *doctor);
void doctor_swap_readahead(struct doctor *doctor);
void doctor_swap_space(struct doctor *doctor);

#endif
