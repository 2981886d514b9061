/*
 * doctor_swap: is this host fit for a daemon that serves a swap device, and how would the kernel use one? See
 * doctor_safety.h for what follows from it.
 */
#ifndef CLI_DOCTOR_SWAP_H
#define CLI_DOCTOR_SWAP_H

#include "cli/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* What the daemon takes on this host for a device of @bytes that is full. */
uint64_t doctor_daemon_bytes(uint64_t bytes);

struct swap_rights {
	bool admin;      /* CAP_SYS_ADMIN: to make devices and to swap to them */
	bool locks;      /* all of its memory, whatever the limit */
	int flusher;     /* 0, or -errno of PR_SET_IO_FLUSHER, which CAP_SYS_RESOURCE is needed for */
	bool spared;     /* CAP_SYS_RESOURCE: may ask the OOM killer to spare it */
	bool realtime;   /* CAP_SYS_NICE: may run before programs, and use what the kernel keeps free */
	uint64_t wanted; /* bytes of a swap device this host is to have; 0: not asked for */
};
struct doctor_verdict doctor_judge_swap_rights(const struct swap_rights *rights);

struct swap_group {
	uint64_t limit;  /* of the control group it would run in, bytes; UINT64_MAX: none */
	uint64_t unused; /* of it */
	bool own;        /* farpage swap on can make one of its own for the daemon */
	uint64_t wanted;
};
struct doctor_verdict doctor_judge_swap_group(const struct swap_group *group);

/* @mkswap: the program is there; @kernel: the kernel can swap. */
struct doctor_verdict doctor_judge_swap_tools(bool mkswap, bool kernel, uint64_t wanted);

/* @cluster: vm.page-cluster, or -errno. */
struct doctor_verdict doctor_judge_swap_readahead(int64_t cluster);

struct swap_space {
	uint64_t wanted;
	uint64_t available; /* MemAvailable of this host, bytes */
	unsigned donors;    /* that answered */
	uint64_t far;       /* free on them */
};
struct doctor_verdict doctor_judge_swap_space(const struct swap_space *space);

struct doctor;
void doctor_rights_read(const struct doctor *doctor, struct swap_rights *ret_rights);
void doctor_group_read(const struct doctor *doctor, struct swap_group *ret_group);
/* A host that is only to lend has no need of swap: true, and a finding that says so. */
bool doctor_skip_donor(struct doctor *doctor);
void doctor_swap_rights(struct doctor *doctor);
void doctor_swap_group(struct doctor *doctor);
void doctor_swap_tools(struct doctor *doctor);
void doctor_swap_readahead(struct doctor *doctor);
void doctor_swap_space(struct doctor *doctor);

#endif
