/* doctor_cpu: checks the processors, the clock and the time that encryption takes. */
#include "cli/doctor/internal.h"
#include "client/page/seal.h"
#include "client/store.h"
#include "common/clock.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define CLOCK_READINGS 1000
#define CLOCK_SLOW_NS 500 /* a slower clock is read by a system call, or from a device */
#define SEAL_ROUNDS 50
#define SEAL_SLOW_NS 5000 /* measured: 1 us with AES instructions, 15 us without */

struct verdict doctor_cpu_count(const struct host *host)
{
	/* With these drivers, even the governor "powersave" raises the frequency when it is needed. */
	bool dynamic =
	    strncmp(host->cpu.driver, "intel_pstate", 12) == 0 || strncmp(host->cpu.driver, "amd-pstate", 10) == 0;
	bool slow = strcmp(host->cpu.governor, "powersave") == 0 && !dynamic;

	if (host->cpu.count < 2)
		return WARN("one processor%s\n", host->cpu.guest ? ", of a virtual machine" : "");
	return verdict_of(slow ? WARN : PASS, "%u processors%s%s", host->cpu.count,
			  slow ? ", kept at their lowest frequency (powersave)" : "",
			  host->cpu.guest ? ", of a virtual machine: waking another processor takes long" : "");
}

struct verdict doctor_cpu_clock(const struct host *host)
{
	bool slow = host->cpu.clock_ns >= CLOCK_SLOW_NS;

	return verdict_of(slow ? WARN : PASS, "%s, %llu ns a reading%s",
			  *host->cpu.clock ? host->cpu.clock : "unknown source", (unsigned long long)host->cpu.clock_ns,
			  slow ? ", which is slow" : "");
}

struct verdict doctor_cpu_seal(const struct host *host)
{
	double page_us = (double)host->cpu.seal_ns / 1e3;

	if (!host->cpu.seal_ns)
		return WARN("no AES-256-GCM: --encrypt does not work");
	if (host->cpu.seal_ns < SEAL_SLOW_NS)
		return PASS("AES-256-GCM, %.1f us a page", page_us);
	return WARN("AES-256-GCM, %.1f us a page, which is slow: are AES instructions missing?\n", page_us);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Returns the ns that one reading of the clock takes: the least of many, because other programs may delay a reading. */
static uint64_t clock_measure(void)
{
	uint64_t best = UINT64_MAX, before = clock_now(), now;

	for (unsigned i = 0; i < CLOCK_READINGS; i++, before = now) {
		now = clock_now();
		best = now - before < best ? now - before : best;
	}
	return best;
}

/* Returns the ns that encrypting a page takes: the least of several rounds. Returns 0 if pages cannot be encrypted. */
static uint64_t seal_measure(void)
{
	static uint8_t page[STORE_PAGE], sealed[STORE_PAGE];
	static const uint8_t key[SEAL_KEY_SIZE]; /* all zeroes, because the sealed page is not used */
	static _Atomic uint64_t numbers;
	struct seal_place place = {0};
	struct seal_record record;
	uint64_t best = UINT64_MAX;
	struct seal *seal;

	if (!seal_find() || seal_open(key, &numbers, &seal) < 0)
		return 0;
	for (unsigned i = 0; i < SEAL_ROUNDS; i++) {
		uint64_t begin = clock_now(), took;

		seal_encrypt(seal, &place, page, sealed, &record);
		took = clock_now() - begin;
		best = took < best ? took : best;
	}
	seal_close(seal);
	return best ? best : 1;
}

void doctor_cpu_read(struct host *host)
{
	static cpu_set_t sets[64]; /* a single set is too small for large machines */
	char flags[8192];

	if (!sched_getaffinity(0, sizeof sets, sets))
		host->cpu.count = (unsigned)CPU_COUNT_S(sizeof sets, sets);
	/* Only x86 has this flag. */
	host->cpu.guest = facts_line("/proc/cpuinfo", "flags", flags, sizeof flags) && strstr(flags, " hypervisor");
	facts_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", host->cpu.governor,
		   sizeof host->cpu.governor);
	facts_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", host->cpu.driver, sizeof host->cpu.driver);
	facts_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", host->cpu.clock,
		   sizeof host->cpu.clock);
	host->cpu.clock_ns = clock_measure();
	host->cpu.seal_ns = seal_measure();
}
