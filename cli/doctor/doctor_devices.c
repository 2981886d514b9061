/* doctor_devices: see doctor_devices.h. */
#include "cli/doctor/doctor_devices.h"
#include "blockdev/frontends.h"
#include "blockdev/ublk/ublk_control.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_kernel.h"
#include "cli/doctor/facts.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define UBLK_CONTROL "/dev/ublk-control"

/* Returns the status for a part that only swap devices need and this host lacks. It is a warning only if a swap
   device was requested. */
static enum doctor_status missing(bool wanted)
{
	return wanted ? DOCTOR_WARN : DOCTOR_SKIP;
}

/* --- ublk -------------------------------------------------------------------------------------------------------- */

bool doctor_ublk_usable(const struct ublk_facts *facts)
{
	return !facts->open && !facts->ring && facts->permitted;
}

struct doctor_verdict doctor_judge_ublk(const struct ublk_facts *facts)
{
	static const char why[] =
	    "the best front end of block devices; without it they are made of FUSE and a loop device: "
	    "slower, and lost with their daemon";
	struct doctor_verdict verdict;

	if (facts->open == -ENOENT || facts->open == -ENXIO || facts->open == -ENODEV) {
		verdict = doctor_judged(missing(facts->wanted), why,
					facts->at_hand ? "its module is not loaded"
						       : "this kernel has none (no " UBLK_CONTROL ")");
		doctor_mend(&verdict, "%s",
			    facts->at_hand ? "as root: modprobe ublk_drv (at every boot: echo ublk_drv > "
					     "/etc/modules-load.d/farpage.conf)"
					   : "a kernel of Linux 6.1 or newer with CONFIG_BLK_DEV_UBLK "
					     "(Debian 12: linux-image-amd64 of bookworm-backports); "
					     "containers must be given " UBLK_CONTROL);
		return verdict;
	}
	if (facts->open || !facts->permitted) {
		verdict = doctor_judged(missing(facts->wanted), why, UBLK_CONTROL ": %s",
					strerror(facts->open ? -facts->open : EPERM));
		doctor_mend(&verdict, "run farpage as root (CAP_SYS_ADMIN); containers must be given " UBLK_CONTROL);
		return verdict;
	}
	if (facts->ring) {
		verdict = doctor_judged(missing(facts->wanted), why, "cannot be used without io_uring: %s",
					strerror(-facts->ring));
		doctor_mend(&verdict, "as root: sysctl kernel.io_uring_disabled=0");
		return verdict;
	}
	if (!facts->recovers) {
		verdict = doctor_judged(DOCTOR_WARN, why, "can be used, but devices end with their daemon");
		doctor_mend(&verdict, "a kernel of Linux 6.1 or newer");
		return verdict;
	}
	return doctor_judged(DOCTOR_PASS, why, "can be used, and devices outlive their daemon");
}

/* --- FUSE -------------------------------------------------------------------------------------------------------- */

bool doctor_fuse_usable(const struct fuse_facts *facts)
{
	return !facts->fuse && !facts->loop && facts->permitted;
}

struct doctor_verdict doctor_judge_fuse(const struct fuse_facts *facts)
{
	static const char why[] = "where there is no ublk, a block device is a loop device over a file of FUSE";
	int error = facts->fuse ? facts->fuse : facts->loop;
	const char *device = facts->fuse ? "/dev/fuse" : "/dev/loop-control";
	const char *module = facts->fuse ? "fuse" : "loop";
	bool needed = facts->wanted && !facts->ublk;
	struct doctor_verdict verdict;

	if (error == -ENOENT || error == -ENXIO || error == -ENODEV) {
		verdict = doctor_judged(missing(needed), why, "no %s", device);
		if (facts->fuse ? facts->fuse_at_hand : facts->loop_at_hand)
			doctor_mend(&verdict, "as root: modprobe %s", module);
		else
			doctor_mend(&verdict, "a kernel with CONFIG_%s; containers must be given %s",
				    facts->fuse ? "FUSE_FS" : "BLK_DEV_LOOP", device);
		return verdict;
	}
	if (error || !facts->permitted) {
		verdict = doctor_judged(missing(needed), why, "%s: %s", device, strerror(error ? -error : EPERM));
		doctor_mend(&verdict, "run farpage as root (CAP_SYS_ADMIN); containers must be given the device");
		return verdict;
	}
	if (facts->ublk)
		return doctor_judged(DOCTOR_PASS, why, "can be used, and is not needed: there is ublk");
	return doctor_judged(DOCTOR_PASS, why,
			     "can be used: devices are slower than ublk's, and lost with their daemon");
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Returns true if the kernel module @name is installed for the running kernel. */
static bool module_at_hand(const char *name)
{
	char path[PATH_MAX], pattern[64], line[4096];
	struct utsname kernel;
	bool found = false;
	FILE *file;

	uname(&kernel);
	snprintf(path, sizeof path, "/lib/modules/%s/modules.dep", kernel.release);
	snprintf(pattern, sizeof pattern, "/%s.ko", name);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof line, file)) {
		line[strcspn(line, ":")] = '\0';
		found = strstr(line, pattern) != NULL;
	}
	fclose(file);
	return found;
}

/* Returns true if ublk has user recovery, which came with Linux 6.1. Kernels before 6.5 do not report their
   features. */
static bool ublk_recovers(void)
{
	char why[UBLK_WHY_MAX];
	struct ublk_control *control;
	unsigned major = 0, minor = 0;
	struct utsname kernel;
	uint64_t features;

	if (ublk_control_open(&control, why) < 0)
		return false;
	features = ublk_control_features(control);
	ublk_control_close(control);
	if (features)
		return (features & UBLK_USER_RECOVERY) && (features & UBLK_USER_RECOVERY_REISSUE);
	uname(&kernel);
	return sscanf(kernel.release, "%u.%u", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 1));
}

static void ublk_read(struct ublk_facts *facts)
{
	*facts = (struct ublk_facts){
	    .open = facts_open(UBLK_CONTROL), .ring = doctor_ring_try(), .permitted = facts_capable(CAP_SYS_ADMIN)};
	facts->at_hand = facts->open && module_at_hand("ublk_drv");
	facts->recovers = doctor_ublk_usable(facts) && ublk_recovers();
}

static void fuse_read(struct fuse_facts *facts)
{
	*facts = (struct fuse_facts){.fuse = facts_open("/dev/fuse"),
				     .loop = facts_open("/dev/loop-control"),
				     .permitted = facts_capable(CAP_SYS_ADMIN)};
	facts->fuse_at_hand = facts->fuse && module_at_hand("fuse");
	facts->loop_at_hand = facts->loop && module_at_hand("loop");
}

enum swap_frontend doctor_frontend(bool *ret_recovers)
{
	struct ublk_facts ublk;
	struct fuse_facts fuse;

	ublk_read(&ublk);
	*ret_recovers = doctor_ublk_usable(&ublk) && ublk.recovers;
	if (doctor_ublk_usable(&ublk))
		return SWAP_FRONTEND_UBLK;
	fuse_read(&fuse);
	return doctor_fuse_usable(&fuse) ? SWAP_FRONTEND_FUSE : SWAP_FRONTEND_NONE;
}

uint64_t doctor_frontend_flight_kib(enum swap_frontend frontend)
{
	if (frontend == SWAP_FRONTEND_NONE)
		return 0;
	return frontends_flight_kib(frontend == SWAP_FRONTEND_FUSE ? &frontend_fuse : &frontend_ublk, 0, 0);
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void add(struct doctor *doctor, struct doctor_verdict verdict)
{
	doctor_add(doctor, NULL, &verdict);
}

void doctor_devices_ublk(struct doctor *doctor)
{
	struct ublk_facts facts;

	ublk_read(&facts);
	facts.wanted = doctor->swap > 0;
	add(doctor, doctor_judge_ublk(&facts));
}

void doctor_devices_fuse(struct doctor *doctor)
{
	struct fuse_facts facts;
	struct ublk_facts ublk;

	ublk_read(&ublk);
	fuse_read(&facts);
	facts.ublk = doctor_ublk_usable(&ublk);
	facts.wanted = doctor->swap > 0;
	add(doctor, doctor_judge_fuse(&facts));
}
