/*
 * doctor_safety: judges how safe swapping to far memory would be on this host, for each fabric and with the front end
 * that this host has.
 *
 * Theory of operation. The kernel writes pages to a swap device exactly when memory has run out. Sending these pages to
 * a donor may need memory, too. The daemon may then wait for memory that becomes free only when the pages are sent, so
 * the host hangs. The verdict is one of three words:
 * - Unsafe: the donor is this host itself, or the daemon may be swapped out, be killed, or wait for its own pages.
 * - Best effort: sending pages needs memory (socket buffers, FUSE's requests), or the device is lost with its daemon.
 *   A reserve makes a lack of memory unlikely.
 * - Safe: none of these problems. There is an RDMA device that works without the kernel, and ublk with recovery.
 *
 * The reserve is vm.min_free_kbytes. farpage swap on raises it while its device exists (blockdev/host/watermarks.h),
 * and doctor_swap_reserves() reports it.
 */
#include "cli/doctor/internal.h"
#include "common/uri.h"

#include <ifaddrs.h>
#include <linux/capability.h>
#include <netdb.h>
#include <string.h>

/* Returns a line with the reason why swapping would be unsafe, and a second line that says what to do. Returns NULL if
   there is no such reason. */
static const char *danger_of(const struct host *host)
{
	if (host->way_is_local)
		return "the donor is this very machine, so its memory runs out together with the programs'\n"
		       "name donors on other machines";
	if (!doctor_swap_locks(host) || host->daemon.flusher || !host_may(host, CAP_SYS_RESOURCE))
		return "the daemon lacks rights that keep it alive when memory runs out\nsee \"rights of the daemon\"";
	if (!host->daemon.own_group && host->memory.group_left < doctor_swap_daemon_bytes(host))
		return "the daemon has no room in its control group\nsee \"control group\"";
	return NULL;
}

/* Returns the part of the path to a donor that needs memory from the kernel, or NULL if there is none. */
static const char *hindrance_of(const struct host *host, bool fuse)
{
	if (host->way == WAY_TCP)
		return "each page sent or received over TCP takes socket buffers";
	if (host->way == WAY_SOFT_RDMA)
		return "an RDMA device in software takes socket buffers for each page";
	return fuse ? "the loop device and FUSE take memory for each request" : NULL;
}

/* Judges a path that needs memory. @lost means that a device is lost with its daemon. */
static struct verdict judge_reserve(const struct host *host, const char *hindrance, bool lost)
{
	const char *dies = lost ? "; and if the daemon dies, the swapped pages are lost" : "";
	unsigned long long needed = doctor_swap_needed(host).at[WATERMARK_MIN];
	unsigned long long now = host->daemon.reserves.at[WATERMARK_MIN];

	if (now < needed)
		return WARN("best effort: %s, and vm.min_free_kbytes is %llu, where %llu are needed%s\n"
			    "farpage swap on sets it while its device exists; for other devices, as root: sysctl "
			    "vm.min_free_kbytes=%llu (the kernel's own choice for this machine, plus twice the %lluK "
			    "that the device may have in flight)",
			    hindrance, now, needed, dies, needed, (unsigned long long)doctor_devices_flight_kib(host));
	return WARN("best effort: %s; vm.min_free_kbytes, %llu, is enough (%llu)%s\n%s%s%s", hindrance, now, needed,
		    dies, host->way == WAY_RDMA ? "" : "an RDMA device (InfiniBand, RoCE, iWARP)",
		    lost && host->way != WAY_RDMA ? ", and " : "", lost ? "ublk (Linux 6.1 or newer)" : "");
}

struct verdict doctor_safety(const struct host *host)
{
	const struct frontend_ops *ops = doctor_devices_frontend(host);
	bool fuse = ops == &frontend_fuse, lost = fuse || !host->devices.ublk_recovers;
	const char *danger = danger_of(host), *hindrance = hindrance_of(host, fuse);

	if (!host_may(host, CAP_SYS_ADMIN) && !host->swap)
		return SKIP("devices and swap are root's; sudo farpage doctor");
	if (!ops)
		return verdict_of(
		    host->swap ? FAIL : SKIP,
		    "neither ublk nor FUSE: no block devices here\nsee \"ublk\" and \"FUSE\" under Kernel");
	if (danger)
		return FAULT("unsafe: %s", danger);
	if (hindrance)
		return judge_reserve(host, hindrance, lost);
	if (lost)
		return WARN(
		    "best effort: sending pages takes no memory, but if the daemon dies, the swapped pages are lost\n"
		    "a kernel of Linux 6.1 or newer, for ublk with recovery");
	return PASS("safe: sending pages takes no memory, and the device outlives its daemon");
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Returns true if @peer, for example "tcp://10.0.0.7:7470" or "rdma://[fd77::1]:7470", is an address of this host. */
static bool peer_is_local(const char *peer)
{
	struct ifaddrs *addresses;
	bool found = false;
	struct uri uri;
	char own[64];

	if (uri_parse(peer, 0, &uri) < 0)
		return false;
	if (strncmp(uri.host, "127.", 4) == 0)
		return true;
	if (getifaddrs(&addresses) < 0)
		return false;
	for (struct ifaddrs *one = addresses; one && !found; one = one->ifa_next) {
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
		socklen_t size = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

		if ((family == AF_INET || family == AF_INET6) &&
		    !getnameinfo(one->ifa_addr, size, own, sizeof own, NULL, 0, NI_NUMERICHOST))
			found = strcmp(own, uri.host) == 0;
	}
	freeifaddrs(addresses);
	return found;
}

/* Returns true if a donor was reached over @scheme, "tcp://" or "rdma://". Sets *@ret_local to true if such a donor
   is on this host. */
static bool is_reached(const struct host *host, const char *scheme, bool *ret_local)
{
	bool reached = false;

	*ret_local = false;
	for (unsigned i = 0; i < host->probe_count; i++) {
		const struct probe *probe = &host->probes[i];

		if (probe->status || strncmp(probe->peer, scheme, strlen(scheme)) != 0)
			continue;
		reached = true;
		*ret_local |= peer_is_local(probe->peer);
	}
	return reached;
}

/* Returns the least safe kind among the RDMA devices, because any of the devices may send pages. */
static enum way rdma_way(const struct fabric_devices *rdma)
{
	for (unsigned i = 0; i < rdma->count; i++)
		if (rdma->devices[i].soft)
			return WAY_SOFT_RDMA;
	return WAY_RDMA;
}

/* The subjects are the fabrics over which donors were reached, rdma:// first. If no donor was reached, they are the
   fabrics that this host has. */
bool doctor_safety_each_way(struct host *host, unsigned index)
{
	const struct frontend_ops *ops = doctor_devices_frontend(host);
	bool rdma_local, rdma = is_reached(host, "rdma://", &rdma_local);
	bool tcp_local, tcp = is_reached(host, "tcp://", &tcp_local);

	if (!rdma && !tcp) {
		rdma = host->rdma.count;
		tcp = true;
	}
	if (index >= (unsigned)rdma + tcp)
		return false;
	tcp = index || !rdma;
	host->way = tcp ? WAY_TCP : rdma_way(&host->rdma);
	host->way_is_local = tcp ? tcp_local : rdma_local;
	snprintf(host->subject, sizeof host->subject, "%s%s",
		 !ops                    ? ""
		 : ops == &frontend_fuse ? "FUSE over "
					 : "ublk over ",
		 tcp ? "tcp://" : "rdma://");
	return true;
}
