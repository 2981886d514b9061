/* fabric_devices: on any host, the list agrees with the kernel's own folders, and reading it keeps nothing. */
#include "fabric/devices.h"
#include "tests/lib/entries.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void the_list_agrees_with_the_kernel(void)
{
	struct fabric_devices devices;
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	int cm = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	ok(fabric_devices_read(&devices) == 0, "the list of devices is read with or without RDMA");
	ok(devices.kernel_count == entries("/sys/class/infiniband"),
	   "the list counts as many devices as the kernel has");
	ok(devices.count <= devices.kernel_count, "the list has no more usable devices than the kernel has devices");
	ok(devices.cm == cm, "the list tells why the connection manager cannot be opened, or that it can");
	for (unsigned i = 0; i < devices.count; i++) {
		char path[256];

		snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports", devices.devices[i].name);
		ok(devices.devices[i].status || entries(path) == devices.devices[i].port_count,
		   "the list has all ports of %s", devices.devices[i].name);
	}
	fabric_devices_free(&devices);
}

static void reading_the_list_keeps_nothing(void)
{
	struct fabric_devices devices;
	unsigned before, after;

	/* The first reading may leave the library's own files open for good. Further ones must not add any. */
	fabric_devices_read(&devices);
	fabric_devices_free(&devices);
	before = entries("/proc/self/fd");
	for (unsigned i = 0; i < 3; i++) {
		fabric_devices_read(&devices);
		fabric_devices_free(&devices);
	}
	after = entries("/proc/self/fd");
	ok(before == after, "reading the list leaves no descriptor open (%u before, %u after)", before, after);
	ok(devices.devices == NULL && devices.count == 0, "a list that is freed is empty");
	fabric_devices_free(&devices);
	ok(devices.devices == NULL, "a list that is freed can be freed again");
}

int main(void)
{
	the_list_agrees_with_the_kernel();
	reading_the_list_keeps_nothing();
	return tap_done();
}
