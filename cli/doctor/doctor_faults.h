/*
 * doctor_faults: checks whether programs can have far memory on this host. It tries userfaultfd as the pager uses it
 * (pager/uffd.h).
 */
#ifndef CLI_DOCTOR_FAULTS_H
#define CLI_DOCTOR_FAULTS_H

#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct uffd_facts {
	int open;             /* 0 if opened with all features that the pager requires, or -errno */
	int device;           /* 0 or -errno of opening /dev/userfaultfd */
	int64_t unprivileged; /* vm.unprivileged_userfaultfd, or -errno */
	bool ptrace;          /* CAP_SYS_PTRACE */
	bool moves, poisons, sees_forks;
	int place, take; /* 0 or -errno of placing a page and of taking it away; `take` only with `moves` */
};

/* Without @client this host is only a donor and needs none of this. The verdict is then DOCTOR_SKIP. */
struct doctor_verdict doctor_judge_right(const struct uffd_facts *facts, bool client);
struct doctor_verdict doctor_judge_paging(const struct uffd_facts *facts, bool client);
struct doctor_verdict doctor_judge_forks(const struct uffd_facts *facts, bool client);

struct doctor;
void doctor_faults_right(struct doctor *doctor);
void doctor_faults_paging(struct doctor *doctor);
void doctor_faults_forks(struct doctor *doctor);

#endif
