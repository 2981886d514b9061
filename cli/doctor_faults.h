/* doctor_faults: may programs here have far memory: userfaultfd, tried as the pager uses it (pager/uffd.h). */
#ifndef CLI_DOCTOR_FAULTS_H
#define CLI_DOCTOR_FAULTS_H

#include "cli/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct uffd_facts {
	int open;             /* 0: opened with all that the pager must have; -errno */
	int device;           /* /dev/userfaultfd: 0 or -errno of opening it */
	int64_t unprivileged; /* vm.unprivileged_userfaultfd, or -errno */
	bool ptrace;          /* CAP_SYS_PTRACE */
	bool moves, poisons, sees_forks;
	int place, take; /* a page was placed, and taken away again: 0 or -errno; take only with moves */
};

/* Without @client (this host is to be a donor only) nothing of this is needed. */
struct doctor_verdict doctor_judge_right(const struct uffd_facts *facts, bool client);
struct doctor_verdict doctor_judge_paging(const struct uffd_facts *facts, bool client);
struct doctor_verdict doctor_judge_forks(const struct uffd_facts *facts, bool client);

struct doctor;
void doctor_faults_right(struct doctor *doctor);
void doctor_faults_paging(struct doctor *doctor);
void doctor_faults_forks(struct doctor *doctor);

#endif
