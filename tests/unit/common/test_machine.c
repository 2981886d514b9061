/* machine: reads how much memory the kernel has available, and how much of it control groups allow. */
#include "common/machine.h"
#include "tests/lib/folder.h"

#include <errno.h>

#define MIB UINT64_C(1048576)

static bool reads(uint64_t total, uint64_t available)
{
	struct machine_memory memory = {0};

	if (machine_memory_read_at(folder_path("proc"), folder_path("group"), &memory) < 0)
		return false;
	if (memory.total == total * MIB && memory.available == available * MIB)
		return true;
	printf("# %llu of %llu MiB\n", (unsigned long long)(memory.available / MIB),
	       (unsigned long long)(memory.total / MIB));
	return false;
}

static void meminfo_is_parsed_whole_or_not_at_all(void)
{
	struct machine_memory memory = {.total = 1};

	ok(machine_memory_parse("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n", &memory) == 0 &&
	       memory.total == 2 << 20 && memory.available == 1 << 20,
	   "both fields of meminfo are parsed");
	memory.total = 1;
	ok(machine_memory_parse("MemTotal:       2048 kB\n", &memory) == -EPROTO && memory.total == 1,
	   "a missing field of meminfo is an error, and the result is not written");
	ok(machine_memory_parse("XMemTotal: 1 kB\nMemAvailable: 1 kB\n", &memory) == -EPROTO,
	   "the field XMemTotal of meminfo is not taken for MemTotal");
	ok(machine_memory_parse("MemTotal: lots\nMemAvailable: 1 kB\n", &memory) == -EPROTO,
	   "a field of meminfo that is no number is an error");
	ok(machine_memory_parse("MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n", &memory) == -EPROTO,
	   "a number of meminfo beyond 64 bits is an error");
	ok(machine_memory_parse("", &memory) == -EPROTO, "an empty meminfo is an error");
	ok(machine_memory_read(&memory) == 0 && memory.total > memory.available && memory.available > 0,
	   "the memory of this machine can be read");
}

static void control_groups_limit_the_memory(void)
{
	folder_put("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 819200 kB\n");
	ok(reads(1024, 800), "a machine without control groups has all its memory");

	folder_put("proc/self/cgroup", "0::/system/donor\n");
	ok(reads(1024, 800), "a control group without files limits nothing");
	folder_put("group/system/donor/memory.max", "max\n");
	folder_put("group/system/donor/memory.current", "104857600\n");
	ok(reads(1024, 800), "a control group with memory.max \"max\" limits nothing");
	folder_put("group/system/donor/memory.max", "536870912\n");
	ok(reads(512, 412), "a limit of 512M with 100M used leaves 412M");
	folder_put("group/system/donor/memory.stat",
		   "anon 5\nfile 7\nactive_inactive_file 3\ninactive_file 20971520\n");
	ok(reads(512, 432), "20M of inactive page cache in a control group count as available");
	folder_put("group/system/memory.max", "268435456\n");
	folder_put("group/system/memory.current", "314572800\n");
	ok(reads(256, 0), "a parent group above its own limit leaves nothing");
	folder_put("group/system/memory.max", "1073741823\n");
	folder_put("group/system/memory.current", "1063256063\n");
	ok(reads(512, 10), "a parent group with a higher limit but less free memory is the bound");
	folder_put("group/system/memory.max", "99999999999999\n");
	ok(reads(512, 432), "a parent group's limit above the machine's memory limits nothing");

	folder_put("group/system/donor/memory.high", "max\n");
	ok(reads(512, 432), "a control group with memory.high \"max\" limits nothing");
	folder_put("group/system/donor/memory.high", "402653184\n");
	ok(reads(384, 304), "a memory.high of 384M limits the memory to 384M");
	folder_put("group/system/donor/memory.max", "max\n");
	ok(reads(384, 304), "a memory.high of 384M limits the memory without a memory.max, too");
	folder_put("group/system/donor/memory.high", "52428800\n");
	ok(reads(50, 0), "a control group above its memory.high leaves nothing");
	folder_put("group/system/donor/memory.high", "402653184\n");
	folder_put("group/system/donor/memory.max", "134217728\n");
	ok(reads(128, 48), "the lower one of memory.max and memory.high is the limit");

	folder_put("proc/self/cgroup", "3:cpu,cpuacct:/x\n4:memory:/job\n0::/nowhere\n");
	folder_put("group/memory/job/memory.limit_in_bytes", "134217728\n");
	folder_put("group/memory/job/memory.usage_in_bytes", "33554432\n");
	folder_put("group/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n");
	ok(reads(128, 97), "a control group of version 1 limits the memory");
	folder_put("group/memory/memory.limit_in_bytes", "9223372036854771712\n");
	folder_put("group/memory/memory.usage_in_bytes", "33554432\n");
	ok(reads(128, 97), "the root group of version 1 limits nothing");

	folder_put("proc/self/cgroup", "nonsense\n:\n::\n0::\n");
	ok(reads(1024, 800), "a malformed /proc/self/cgroup limits nothing");
}

int main(void)
{
	meminfo_is_parsed_whole_or_not_at_all();
	control_groups_limit_the_memory();
	return tap_done();
}
