/* doctor_kernel: checks the kernel's version and features. */
#include "cli/doctor/internal.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

struct verdict doctor_kernel_version(const struct host *host)
{
	const char *release = host->kernel.release;

	if (!facts_release_is(release, 1, 0))
		return WARN("not a version: %s\n", release);
	return verdict_of(facts_release_is(release, 6, 8)   ? PASS
			  : facts_release_is(release, 5, 7) ? WARN
							    : FAIL,
			  "Linux %s", release);
}

struct verdict doctor_kernel_ring(const struct host *host)
{
	int error = host->kernel.ring;
	const char *mend = "";

	if (!error)
		return PASS("io_uring works");
	if (host->kernel.ring_disabled > 0)
		mend = "as root: sysctl kernel.io_uring_disabled=0";
	else if (error == -EPERM || (error == -ENOSYS && host->filtered))
		mend = "a seccomp filter, such as a container's, forbids it: allow io_uring_setup, io_uring_enter and "
		       "io_uring_register in the container's seccomp profile";
	else if (error == -EINVAL || error == -ENOSYS)
		mend = "a kernel of Linux 5.19 or newer with CONFIG_IO_URING";
	return WARN("no io_uring (%s): neither ublk devices nor --backup work\n%s", strerror(-error), mend);
}

struct verdict doctor_kernel_pressure(const struct host *host)
{
	int error = host->kernel.pressure;

	if (error)
		return SKIP("no /proc/pressure/memory (%s)", strerror(-error));
	return PASS("/proc/pressure/memory exists");
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static int ring_try(void)
{
	struct io_uring_params parameters = {.flags = IORING_SETUP_SQE128};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);

	if (fd < 0)
		return -errno;
	close(fd);
	return parameters.features & IORING_FEAT_EXT_ARG ? 0 : -EINVAL;
}

void doctor_kernel_read(struct host *host)
{
	char text[16]; /* if PSI is disabled, the file exists but reading it fails */
	struct utsname name = {0};

	host->capabilities = facts_field("/proc/self/status", "CapEff", 16);
	host->filtered = facts_field("/proc/self/status", "Seccomp", 10) == SECCOMP_MODE_FILTER;
	uname(&name);
	snprintf(host->kernel.release, sizeof host->kernel.release, "%s", name.release);
	host->kernel.ring = ring_try();
	host->kernel.ring_disabled = facts_number("/proc/sys/kernel/io_uring_disabled");
	host->kernel.pressure = facts_text("/proc/pressure/memory", text, sizeof text);
}
