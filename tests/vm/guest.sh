# guest.sh: helpers for commands that run in a virtual machine (vm.py, pair.py). Bash sources it: `. tests/vm/guest.sh`
#
#   rxe_up             makes the soft-RoCE (RoCE v2) device rxe0 on a dummy interface far0 with RXE_ADDRESSES
#   siw_up             makes the soft iWARP device siw0 on the same interface (needs vm.py --driver siw)
#   rails_up           in a pair: gives this machine addresses on each rail, 10.77.RAIL.1 or .2 and fd77:RAIL::1 or ::2.
#                      The donor is 1, the client 2. PEER, PEER6, PEER_RAIL1 and PEER6_RAIL1 are the other's addresses.
#   rails_rxe          in a pair, after rails_up: makes rxe0 on rail 0 and rxe1 on rail 1
#   rails_siw          in a pair, after rails_up: makes siw0 on rail 0 and siw1 on rail 1
#   machine VERB NAME  in a pair: kills, stops, continues or starts the machine donor or client; waits for the result
#   rail NUMBER STATE  in a pair: takes a rail up or down, for both machines
#   share_tell NAME [WORD...]     in a pair: leaves a message for the other machine. Messages outlive the machines;
#                      VM_BOOT counts the lives of this machine.
#   share_wait NAME [SECONDS]     in a pair: waits for the other machine's message and prints it
#   rdma_listens PORT  succeeds if a program listens there by rdma_cm, which has no sockets; for wait_for
#   huge_pages COUNT   puts COUNT pages of 2 MiB into the machine's pool
#
# A helper that fails ends the command with a line on standard error. A guest is disposable. wait.sh has wait_for.
# shellcheck shell=bash
. tests/lib/wait.sh

RXE_ADDRESSES=(10.77.0.1/24 10.77.0.2/24 10.77.0.3/24 10.77.0.4/24 fd77::1/64)

guest_fail() {
	echo "guest.sh: $*" >&2
	exit 1
}

# gid_is_set DEVICE INDEX: succeeds if the entry of the GID table is in use, so not all zeroes.
gid_is_set() {
	local gid
	read -r gid <"/sys/class/infiniband/$1/ports/1/gids/$2" && [ -n "${gid//[0:]/}" ]
} 2>/dev/null

interface_up() {
	local interface=$1 address
	shift
	# Duplicate address detection would delay IPv6 addresses by a second.
	sysctl -qw "net.ipv6.conf.$interface.accept_dad=0"
	ip link set "$interface" mtu 9000 || guest_fail "no interface $interface"
	for address; do
		ip address add "$address" dev "$interface" || guest_fail "cannot give $interface the address $address"
	done
	ip link set "$interface" up
}

far_interface() {
	[ -e /sys/class/net/far0 ] && return
	modprobe dummy numdummies=0
	ip link add far0 type dummy || guest_fail "cannot make a dummy interface"
	interface_up far0 "${RXE_ADDRESSES[@]}"
}

# rdma_device TYPE NAME INTERFACE: makes a device and waits until it has a GID for each address. iWARP has only one GID.
rdma_device() {
	local addresses
	rdma link add "$2" type "$1" netdev "$3" || guest_fail "cannot make $2 on $3"
	addresses=$(ip -o address show dev "$3" | wc -l)
	[ "$1" = siw ] || wait_for 10 gid_is_set "$2" $((addresses - 1)) || guest_fail "$2 has not got $addresses GIDs"
}

# The kernel shows LISTEN slightly before a connection request can find the listener, and rejects requests in between.
# So this also waits until the listening call has returned: no thread of the program runs or waits in that call.
rdma_listens() {
	local pid
	pid=$(rdma resource show cm_id | sed -n "s/.* state LISTEN .* pid \([0-9]*\) .*:$1 .*/\1/p" | head -n 1)
	[ -n "$pid" ] && ! grep -q "^running" /proc/"$pid"/task/*/syscall && ! grep -q ucma_listen /proc/"$pid"/task/*/stack
}

rxe_modules() {
	modprobe -a rdma_rxe rdma_ucm || guest_fail "the kernel has no soft-RoCE"
}

siw_modules() {
	[ -e "$VM_IMAGE/siw/siw.ko" ] || guest_fail "the iWARP driver is not at hand: use --driver siw"
	modprobe -a ib_uverbs rdma_ucm iw_cm libcrc32c && { [ -e /sys/module/siw ] || insmod "$VM_IMAGE/siw/siw.ko"; } ||
		guest_fail "the iWARP driver does not load"
}

rxe_up() {
	rxe_modules
	far_interface
	rdma_device rxe rxe0 far0
}

siw_up() {
	siw_modules
	far_interface
	rdma_device siw siw0 far0
}

rails_up() {
	local rail me other
	case $VM_NAME in
	donor) me=1 other=2 ;;
	client) me=2 other=1 ;;
	*) guest_fail "there are no rails here: use pair.py" ;;
	esac
	for ((rail = 0; rail < VM_RAILS; rail++)); do
		interface_up "eth$rail" "10.77.$rail.$me/24" "fd77:$rail::$me/64"
	done
	PEER=10.77.0.$other PEER6=fd77:0::$other
	PEER_RAIL1=10.77.1.$other PEER6_RAIL1=fd77:1::$other
	# A rail must not answer ARP for addresses of the other rail, nor carry the traffic of a dead rail.
	sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
}

rails_rxe() {
	local rail
	rxe_modules
	for ((rail = 0; rail < VM_RAILS; rail++)); do
		rdma_device rxe "rxe$rail" "eth$rail"
	done
}

rails_siw() {
	local rail
	siw_modules
	for ((rail = 0; rail < VM_RAILS; rail++)); do
		rdma_device siw "siw$rail" "eth$rail"
	done
}

# rig_request WORD...: sends a request to the rig, one at a time. The answer is a line.
rig_request() {
	local answer
	{
		flock 8
		exec 7<>/dev/virtio-ports/control
		echo "$*" >&7
		read -r answer <&7
		exec 7>&-
	} 8>/run/rig.lock
	[ "$answer" = ok ] || guest_fail "$*: $answer"
}

machine() {
	rig_request "$@"
}

rail() {
	rig_request rail "$@"
}

share_tell() {
	echo "${*:2}" >"/share/.$1.$VM_NAME" && mv "/share/.$1.$VM_NAME" "/share/$1"
}

share_wait() {
	wait_for "${2:-60}" test -e "/share/$1" || guest_fail "no word of $1 in ${2:-60} s"
	cat "/share/$1"
}

huge_pages() {
	echo "$1" >/proc/sys/vm/nr_hugepages
	[ "$(cat /proc/sys/vm/nr_hugepages)" -eq "$1" ] || guest_fail "no room for $1 huge pages"
}
