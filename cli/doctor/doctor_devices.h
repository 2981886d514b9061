/* doctor_devices: checks the parts of farpage's block devices: ublk, or a FUSE file under a loop device. */
#ifndef CLI_DOCTOR_DEVICES_H
#define CLI_DOCTOR_DEVICES_H

#include "cli/doctor/doctor_safety.h"
#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct ublk_facts {
	int open;       /* 0 or -errno of opening /dev/ublk-control */
	bool at_hand;   /* an installed module is not loaded */
	int ring;       /* 0 or -errno of io_uring, which ublk needs */
	bool recovers;  /* devices outlive their daemon; unanswered requests are repeated */
	bool permitted; /* this process has CAP_SYS_ADMIN */
	bool wanted;    /* a swap device was requested */
};
bool doctor_ublk_usable(const struct ublk_facts *facts);
struct doctor_verdict doctor_judge_ublk(const struct ublk_facts *facts);

struct fuse_facts {
	int fuse, loop; /* 0 or -errno of opening /dev/fuse, /dev/loop-control */
	bool fuse_at_hand, loop_at_hand;
	bool ublk; /* ublk can be used, so FUSE is not needed */
	bool permitted, wanted;
};
bool doctor_fuse_usable(const struct fuse_facts *facts);
struct doctor_verdict doctor_judge_fuse(const struct fuse_facts *facts);

/* Returns the front end that `auto` chooses on this host. @ret_recovers: devices of this front end outlive their
   daemon. */
enum swap_frontend doctor_frontend(bool *ret_recovers);
/* Returns the KiB that all queues of a device may have under way with default settings. */
uint64_t doctor_frontend_flight_kib(enum swap_frontend frontend);

struct doctor;
void doctor_devices_ublk(struct doctor *doctor);
void doctor_devices_fuse(struct doctor *doctor);

#endif
