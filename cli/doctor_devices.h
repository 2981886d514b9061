/* doctor_devices: what block devices of far memory are made of: ublk, or a file of FUSE under a loop device. */
#ifndef CLI_DOCTOR_DEVICES_H
#define CLI_DOCTOR_DEVICES_H

#include "cli/doctor_safety.h"
#include "cli/doctor_verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct ublk_facts {
	int open;       /* 0 or -errno of opening /dev/ublk-control */
	bool at_hand;   /* the kernel has a module that is not loaded */
	int ring;       /* 0 or -errno of io_uring, which all of ublk goes through */
	bool recovers;  /* devices outlive their daemon, and what it had not answered is repeated */
	bool permitted; /* this process may do what takes CAP_SYS_ADMIN */
	bool wanted;    /* a swap device was asked for */
};
bool doctor_ublk_usable(const struct ublk_facts *facts);
struct doctor_verdict doctor_judge_ublk(const struct ublk_facts *facts);

struct fuse_facts {
	int fuse, loop; /* 0 or -errno of opening /dev/fuse, /dev/loop-control */
	bool fuse_at_hand, loop_at_hand;
	bool ublk; /* can be used: there is no need of FUSE */
	bool permitted, wanted;
};
bool doctor_fuse_usable(const struct fuse_facts *facts);
struct doctor_verdict doctor_judge_fuse(const struct fuse_facts *facts);

/* The front end that `auto` chooses on this host. @ret_recovers: its devices outlive their daemon. */
enum swap_frontend doctor_frontend(bool *ret_recovers);
/* What all queues of a device may have under way, with the settings that are not given. */
uint64_t doctor_frontend_flight_kib(enum swap_frontend frontend);

struct doctor;
void doctor_devices_ublk(struct doctor *doctor);
void doctor_devices_fuse(struct doctor *doctor);

#endif
