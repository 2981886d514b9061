#!/bin/bash
# test_doctor.sh FARPAGE MEMSERVER: in one machine (vm.py --driver siw), checks the findings of farpage doctor while modules,
# devices and RDMA are set up step by step.
. tests/vm/guest.sh
. tests/lib/tap.sh
farpage=$1 memserver=$2

# found NAME PATTERN [MEND]: checks that the report has a finding that matches, and says how to mend it.
found() {
	matches "$1" "^  $2" "$report"
	[ -z "${3-}" ] || matches "$1, and says how to mend it" "^        mend .*$3" "$(grep -EA2 "^  $2" <<<"$report")"
}

examine() {
	report=$("$farpage" doctor --verbose "$@")
	status=$?
}

# examine_as_user KIB OPTION...: as examine, as a user without rights who may lock KIB of memory.
examine_as_user() {
	local kib=$1
	shift
	report=$(ulimit -l "$kib" && setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		"$farpage" doctor --verbose "$@")
	status=$?
}

examine
expect "doctor exits with status 0 without RDMA" 0 $status
found "doctor warns of a machine without RDMA devices" \
	"warn  devices +no RDMA device; tcp:// works" "modprobe -a rdma_rxe rdma_ucm"
found "doctor skips RDMA ports without a device" "skip  port "
examine --donor rdma://10.77.0.1
expect "doctor exits with status 1 for an rdma:// donor without RDMA" 1 $status
found "doctor fails missing RDMA devices for an rdma:// donor" "fail  devices +no RDMA device"
found "doctor fails an rdma:// donor on a host without RDMA" \
	"fail  donor rdma://10.77.0.1 +this host has no RDMA device" "tcp://HOST"

found "doctor skips ublk if its module is not loaded" "skip  ublk +its module is not loaded" "modprobe ublk_drv"
found "doctor skips FUSE if its modules are not loaded" "skip  FUSE +no /dev/(fuse|loop-control)" "modprobe (fuse|loop)"
found "doctor skips swap without ublk and FUSE" "skip  swap by tcp:// +neither ublk nor FUSE" ""
examine --swap 64M
expect "doctor --swap exits with status 1 without ublk and FUSE" 1 $status
found "doctor --swap fails swap without ublk and FUSE" "fail  swap by tcp:// +neither ublk nor FUSE" "Kernel"
modprobe -a fuse loop
examine --swap 64M
expect "doctor --swap exits with status 0 with FUSE" 0 $status
found "doctor passes FUSE with its modules loaded" "pass  FUSE +can be used: devices are slower"
found "doctor warns that swap by FUSE is best effort" \
	"warn  swap by FUSE over tcp:// +best effort: .* if the daemon dies" "ublk"
modprobe ublk_drv
echo 1024 >/proc/sys/vm/min_free_kbytes
examine --swap 64M
found "doctor passes ublk with its module loaded" "pass  ublk +can be used, and devices outlive their daemon"
found "doctor passes the rights of the daemon" "pass  rights of the daemon "
found "doctor warns of a vm.min_free_kbytes too small for swap over TCP" \
	"warn  swap by ublk over tcp:// +best effort: .* is 1024, where" \
	"sysctl vm.min_free_kbytes=[0-9]+"
reserve=$(sed -n 's/.*sysctl vm.min_free_kbytes=\([0-9]*\) .*/\1/p' <<<"$report")
echo "$reserve" >/proc/sys/vm/min_free_kbytes
examine --swap 64M
found "doctor finds the advised vm.min_free_kbytes enough" \
	"warn  swap by ublk over tcp:// +best effort: .*, $reserve, is enough" "RDMA device"

modprobe -a dummy rdma_rxe
ip link add far0 type dummy
ip link set far0 mtu 1500 up
rdma link add rxe0 type rxe netdev far0
examine
expect "doctor exits with status 0 with RDMA that is not ready" 0 $status
found "doctor passes a soft-RoCE device" "pass  devices +rxe0 \(soft-RoCE\)"
found "doctor warns of a missing RDMA connection manager" \
	"warn  connecting +/dev/infiniband/rdma_cm: No such file" "modprobe rdma_ucm"
found "doctor warns of an RDMA port without a GID" \
	"warn  port rxe0/1 +active, but no GID" "ip address add ADDRESS/LENGTH dev far0"
found "doctor warns of RDMA packets smaller than a page" \
	"warn  packets of rxe0/1 +1024 bytes: works, with 4 packets a page" "ip link set far0 mtu 9000"
found "doctor passes the limits of the RDMA device" "pass  limits of rxe0 +[0-9]+ queue pairs of [0-9]+ operations"

modprobe rdma_ucm
interface_up far0 "${RXE_ADDRESSES[@]}"
wait_for 10 gid_is_set rxe0 ${#RXE_ADDRESSES[@]}
examine
expect "doctor exits with status 0 with RDMA that is ready" 0 $status
found "doctor passes the RDMA connection manager" "pass  connecting "
found "doctor passes an RDMA port with an address" \
	"pass  port rxe0/1 +active, Ethernet \(RoCE v2\), on far0 as 10.77.0.1 and others"
found "doctor passes RDMA packets of a page" "pass  packets of rxe0/1 +4096 bytes: a page is one packet"
found "doctor warns that swap over soft-RoCE is best effort" \
	"warn  swap by ublk over rdma:// +best effort: an RDMA device in software"
# Emulated processors encrypt slowly, so doctor may warn of that.
expect "doctor gives no warnings but those of swap and encryption" \
	"" "$(grep '^  warn' <<<"$report" | grep -v -e '^  warn  swap by ' -e '^  warn  encryption ')"

ip link set far0 down
examine
found "doctor warns of an RDMA port that is down" "warn  port rxe0/1 +the port is down" "ip link set far0 up"
found "doctor skips the packets of an RDMA port that is down" "skip  packets of rxe0/1 "
ip link set far0 up
wait_for 10 gid_is_set rxe0 1

examine_as_user 8192 --donate 64M --donor tcp://10.77.0.1:1
found "doctor warns a user of a limit on locked memory" \
	"warn  locked memory +8M is enough up to --local 64M" "ulimit -l"
found "doctor fails a limit on locked memory too small to donate" \
	"fail  locked memory of a donor +8M, less than 64M" "LimitMEMLOCK"
found "doctor fails a user without the right to userfaultfd" "fail  userfaultfd +no right" "unprivileged_userfaultfd=1"
found "doctor skips the rights of the daemon for a user" "skip  rights of the daemon +devices and swap are root's"
examine_as_user 1024
found "doctor fails a limit on locked memory too small for any client" \
	"fail  locked memory +1M; .* too little for any" "ulimit -l"
sysctl -qw vm.unprivileged_userfaultfd=1
examine_as_user unlimited
found "doctor passes userfaultfd for a user if vm.unprivileged_userfaultfd is 1" \
	"pass  userfaultfd +may be used \(vm.unprivileged_userfaultfd is 1\)"
found "doctor warns a user without CAP_SYS_PTRACE that forks are not seen" \
	"warn  forks +forks are not seen" "CAP_SYS_PTRACE"
found "doctor passes unlimited locked memory" "pass  locked memory +unlimited"

huge_pages 32
sysctl -qw vm.overcommit_memory=2 vm.max_map_count=1024 kernel.io_uring_disabled=2
echo never >/sys/kernel/mm/transparent_hugepage/enabled
examine --donate 128M
found "doctor warns of fewer hugetlb pages than to lend" \
	"warn  hugetlb pages +64M set aside .*less than the 128M to lend" "vm.nr_hugepages=64"
found "doctor warns of transparent huge pages switched off" "warn  transparent huge pages +.*never" "echo madvise"
found "doctor warns of strict overcommit" "warn  overcommit +vm.overcommit_memory is 2" "vm.overcommit_memory=0"
found "doctor warns of a small vm.max_map_count" \
	"warn  mappings of a process +vm.max_map_count is only 1024" "vm.max_map_count=65530"
found "doctor warns of io_uring switched off" "warn  io_uring +no io_uring" "kernel.io_uring_disabled=0"
sysctl -qw vm.overcommit_memory=0 vm.max_map_count=65530 kernel.io_uring_disabled=0
huge_pages 0

siw_modules
rdma link add siw0 type siw netdev far0
examine
found "doctor passes a soft-RoCE and an iWARP device" \
	"pass  devices +(rxe0 \(soft-RoCE\), siw0 \(soft iWARP\)|siw0 \(soft iWARP\), rxe0 \(soft-RoCE\))"
found "doctor passes the port of an iWARP device" "pass  port siw0/1 +active, iWARP"
rdma link delete siw0

"$farpage" key /run/key >/run/made
"$memserver" --listen rdma://10.77.0.1 --donate 64M --slab 16M --key /run/key >/run/donor 2>&1 &
donor=$!
wait_for 20 grep -q " listening on rdma://" /run/donor
examine --key /run/key --donor rdma://10.77.0.1 --donor rdma://10.77.0.2:9 --donor rdma://127.0.0.1
expect "doctor exits with status 1 if one of three donors answers" 1 $status
found "doctor passes a donor that answers over RDMA" "pass  donor rdma://10.77.0.1 +answers as rdma://10.77.0.1:7470"
found "doctor passes a donor with free memory" \
	"pass  room on rdma://10.77.0.1 +64M free of 64M in slabs of 16M, other clients: 0"
found "doctor measures the way to a donor" "(pass|warn)  way to rdma://10.77.0.1 +message and answer [0-9]+ us"
found "doctor fails a donor that refuses the connection" \
	"fail  donor rdma://10.77.0.2:9 +connection refused" "farpage-memserver"
found "doctor fails an rdma:// donor that no RDMA device leads to" \
	"fail  donor rdma://127.0.0.1 +no RDMA device of this host leads" "address"
found "doctor warns of swap to a donor on the same machine" \
	"warn  swap by ublk over rdma:// +unsafe: the donor is this very machine" "other machines"
path=$("$farpage" disk attach --name scratch --size 32M --donor rdma://10.77.0.1 --key /run/key 2>/run/attached)
examine
found "doctor passes a device that is served" "pass  device scratch +$path is served"
"$farpage" disk leave scratch
expect "disk leave succeeds" 0 $?
examine
found "doctor warns of a device whose daemon has ended" \
	"warn  device scratch +its daemon has ended; $path waits" "farpage disk adopt scratch"
expect "disk adopt prints the path of the device it adopts" "$path" "$("$farpage" disk adopt scratch 2>/run/adopted)"
examine
found "doctor passes a device that was adopted" "pass  device scratch +$path is served"
"$farpage" disk detach scratch
expect "disk detach succeeds and leaves no file in /run/farpage" "0 0" "$? $(ls /run/farpage | wc -l)"
kill $donor
wait $donor
expect "the kernel has no RDMA connections when the donor has ended" "" "$(rdma resource show cm_id | grep ' state ')"
tap_done
