/* test_devices: what is true of fabric_devices on any host: it agrees with the kernel's own folders, keeps nothing. */
#include "farpage/fabric_devices.h"
#include "tests/entries.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void test_agrees_with_kernel(void)
{
	struct fabric_devices devices;
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	int cm = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	ok(fabric_devices_read(&devices) == 0, "reads, with or without RDMA");
	ok(devices.kernel_count == entries("/sys/class/infiniband"), "as many devices as the kernel has");
	ok(devices.count <= devices.kernel_count, "and no more that programs can use");
	ok(devices.cm == cm, "says whether the connection manager can be opened, and why not");
	for (unsigned i = 0; i < devices.count; i++) {
		char path[256];

		snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports", devices.devices[i].name);
		ok(devices.devices[i].status || entries(path) == devices.devices[i].port_count, "all ports of %s",
		   devices.devices[i].name);
	}
	fabric_devices_free(&devices);
}

static void test_keeps_nothing(void)
{
	struct fabric_devices devices;
	unsigned before, after;

	/* The first reading may leave the library's own files open for good; more must not add any. */
	fabric_devices_read(&devices);
	fabric_devices_free(&devices);
	before = entries("/proc/self/fd");
	for (unsigned i = 0; i < 3; i++) {
		fabric_devices_read(&devices);
		fabric_devices_free(&devices);
	}
	after = entries("/proc/self/fd");
	ok(before == after, "no descriptor is left open (%u, %u)", before, after);
	ok(devices.devices == NULL && devices.count == 0, "freed is empty");
	fabric_devices_free(&devices);
	ok(devices.devices == NULL, "and can be freed again");
}

int main(void)
{
	test_agrees_with_kernel();
	test_keeps_nothing();
	return tap_done();
}
