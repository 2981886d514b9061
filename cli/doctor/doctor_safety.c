/* doctor_safety: see doctor_safety.h. */
#include "cli/doctor/doctor_safety.h"
#include "blockdev/host/watermarks.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_devices.h"
#include "cli/doctor/facts.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

static enum doctor_status severity(uint64_t wanted)
{
	return wanted ? DOCTOR_FAIL : DOCTOR_WARN;
}

/* Returns why swapping would be unsafe, with the mend in @ret_mend, or NULL if it would not be. */
static const char *danger_of(const struct swap_facts *facts, const char **ret_mend)
{
	if (facts->local) {
		*ret_mend = "name donors on other machines";
		return "the donor is this very machine, whose memory runs out with that of the programs";
	}
	if (!facts->rights.locks || facts->rights.flusher || !facts->rights.spared) {
		*ret_mend = "see \"rights of the daemon\"";
		return "the daemon may not do what keeps it alive when memory runs out";
	}
	if (!facts->group.own && facts->group.unused < doctor_daemon_bytes(facts->group.wanted)) {
		*ret_mend = "see \"control group\"";
		return "the daemon has no room in its control group";
	}
	return NULL;
}

/* Returns what takes memory from the kernel on the way to a donor, or NULL if nothing does. */
static const char *hindrance_of(const struct swap_facts *facts)
{
	if (facts->fabric == SWAP_FABRIC_TCP)
		return "each page sent or received over TCP takes socket buffers";
	if (facts->fabric == SWAP_FABRIC_SOFT_RDMA)
		return "an RDMA device in software takes socket buffers for each page";
	if (facts->frontend == SWAP_FRONTEND_FUSE)
		return "the loop device and FUSE take memory for each request";
	return NULL;
}

struct doctor_verdict doctor_judge_safety(const struct swap_facts *facts)
{
	static const char why[] =
	    "pages leave for a swap device just when memory has run out: what the way there needs of "
	    "it then may be had only when pages have left";
	const char *mend, *danger = danger_of(facts, &mend), *hindrance = hindrance_of(facts);
	bool lost = facts->frontend == SWAP_FRONTEND_FUSE || !facts->recovers;
	const char *dies = lost ? "; and if the daemon dies, so does what is swapped to it" : "";
	unsigned long long reserve = watermarks_needed(facts->memory_kib, facts->flight_kib).at[WATERMARK_MIN];
	unsigned long long now = facts->min_free_kib;
	struct doctor_verdict verdict;

	if (!facts->rights.admin && !facts->rights.wanted)
		return doctor_judged(DOCTOR_SKIP, why, "devices and swap are root's; sudo farpage doctor");
	if (facts->frontend == SWAP_FRONTEND_NONE) {
		verdict = doctor_judged(facts->rights.wanted ? DOCTOR_FAIL : DOCTOR_SKIP, why,
					"neither ublk nor FUSE: no block devices here");
		doctor_mend(&verdict, "see \"ublk\" and \"FUSE\" under Kernel");
		return verdict;
	}
	if (danger) {
		verdict = doctor_judged(severity(facts->rights.wanted), why, "unsafe: %s", danger);
		doctor_mend(&verdict, "%s", mend);
		return verdict;
	}
	if (!hindrance && !lost)
		return doctor_judged(DOCTOR_PASS, why,
				     "safe: nothing on the way takes memory, and the device outlives "
				     "its daemon");
	if (!hindrance) {
		verdict = doctor_judged(DOCTOR_WARN, why,
					"best effort: nothing on the way takes memory, but if the daemon "
					"dies, so does what is swapped to it");
		doctor_mend(&verdict, "a kernel of Linux 6.1 or newer, for ublk with recovery");
		return verdict;
	}
	if (now < reserve) {
		verdict = doctor_judged(DOCTOR_WARN, why,
					"best effort: %s, and vm.min_free_kbytes is %llu, where %llu are "
					"needed%s",
					hindrance, now, reserve, dies);
		doctor_mend(
		    &verdict,
		    "farpage swap on sets it while its device is there; for others, as root: sysctl "
		    "vm.min_free_kbytes=%llu (what the kernel keeps free by itself for this memory, and twice the "
		    "%lluK that the device may have under way)",
		    reserve, (unsigned long long)facts->flight_kib);
		return verdict;
	}
	verdict = doctor_judged(DOCTOR_WARN, why, "best effort: %s; vm.min_free_kbytes, %llu, is enough (%llu)%s",
				hindrance, now, reserve, dies);
	doctor_mend(&verdict, "%s%s",
		    facts->fabric == SWAP_FABRIC_RDMA ? "" : "an RDMA device (InfiniBand, RoCE, iWARP)",
		    !lost                               ? ""
		    : facts->fabric == SWAP_FABRIC_RDMA ? "ublk (Linux 6.1 or newer)"
							: ", and ublk (Linux 6.1 or newer)");
	return verdict;
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Returns true if @peer, for example "tcp://10.0.0.7:7470" or "rdma://[fd77::1]:7470", is an address of this host. */
static bool peer_is_local(const char *peer)
{
	char host[64] = "", own[64];
	const char *start = strstr(peer, "://");
	struct ifaddrs *addresses;
	bool found = false;
	char *end;

	if (!start)
		return false;
	start += 3 + (start[3] == '[');
	snprintf(host, sizeof host, "%s", start);
	end = strchr(host, ']');
	end = end ? end : strrchr(host, ':');
	if (end)
		*end = '\0';
	if (strncmp(host, "127.", 4) == 0)
		return true;
	if (getifaddrs(&addresses) < 0)
		return false;
	for (struct ifaddrs *one = addresses; one && !found; one = one->ifa_next) {
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
		socklen_t size = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

		if ((family == AF_INET || family == AF_INET6) &&
		    !getnameinfo(one->ifa_addr, size, own, sizeof own, NULL, 0, NI_NUMERICHOST))
			found = strcmp(own, host) == 0;
	}
	freeifaddrs(addresses);
	return found;
}

/* Returns the worst kind among the RDMA devices, because pages may take any of them. */
static enum swap_fabric rdma_kind(const struct fabric_devices *devices)
{
	for (unsigned i = 0; i < devices->count; i++)
		if (devices->devices[i].soft)
			return SWAP_FABRIC_SOFT_RDMA;
	return SWAP_FABRIC_RDMA;
}

/* --- The check --------------------------------------------------------------------------------------------------- */

/* Adds one finding for each fabric over which the named donors were reached. If none was reached, adds one for each
   fabric of this host. */
void doctor_safety(struct doctor *doctor)
{
	static const char *const frontends[] = {"", "ublk over ", "FUSE over "};
	struct swap_facts facts = {.recovers = true};
	bool seen[2] = {false, false}, local[2] = {false, false};
	char subject[32];

	if (doctor_skip_donor(doctor))
		return;
	for (unsigned i = 0; i < doctor->probe_count; i++) {
		bool tcp = strncmp(doctor->probes[i].peer, "tcp://", 6) == 0;

		if (doctor->probes[i].status)
			continue;
		seen[tcp] = true;
		local[tcp] |= peer_is_local(doctor->probes[i].peer);
	}
	if (!seen[0] && !seen[1]) {
		seen[0] = doctor->devices.count > 0;
		seen[1] = true;
	}
	facts.frontend = doctor_frontend(&facts.recovers);
	facts.flight_kib = doctor_frontend_flight_kib(facts.frontend);
	doctor_rights_read(doctor, &facts.rights);
	doctor_group_read(doctor, &facts.group);
	facts_field("/proc/meminfo", "MemTotal", &facts.memory_kib);
	facts_number("/proc/sys/vm/min_free_kbytes", &facts.min_free_kib);
	for (unsigned tcp = 0; tcp < 2; tcp++) {
		if (!seen[tcp])
			continue;
		facts.fabric = tcp ? SWAP_FABRIC_TCP : rdma_kind(&doctor->devices);
		facts.local = local[tcp];
		snprintf(subject, sizeof subject, "%s%s", frontends[facts.frontend], tcp ? "tcp://" : "rdma://");
		struct doctor_verdict verdict = doctor_judge_safety(&facts);
		doctor_add(doctor, subject, &verdict);
	}
}
