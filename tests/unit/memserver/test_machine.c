/* machine: reads what the kernel says, and nothing else. */
#include "memserver/machine.h"
#include "tests/tap.h"

#include <errno.h>

int main(void)
{
	struct machine_memory memory = {.total = 1};

	ok(machine_memory_parse("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n", &memory) == 0 &&
	           memory.total == 2 << 20 && memory.available == 1 << 20,
	   "both fields");
	memory.total = 1;
	ok(machine_memory_parse("MemTotal:       2048 kB\n", &memory) == -EPROTO && memory.total == 1,
	   "one field missing: an error, and nothing written");
	ok(machine_memory_parse("XMemTotal: 1 kB\nMemAvailable: 1 kB\n", &memory) == -EPROTO, "another field's name");
	ok(machine_memory_parse("MemTotal: lots\nMemAvailable: 1 kB\n", &memory) == -EPROTO, "not a number");
	ok(machine_memory_parse("MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n", &memory) == -EPROTO,
	   "too large a number");
	ok(machine_memory_parse("", &memory) == -EPROTO, "nothing at all");
	ok(machine_memory_read(&memory) == 0 && memory.total > memory.available && memory.available > 0, "this machine");
	return tap_done();
}
