#!/bin/bash
# test_doctor.sh FARPAGE MEMSERVER: in one machine (vm.py --siw), what farpage doctor finds as RDMA comes step by step.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
farpage=$1 memserver=$2

# found NAME PATTERN [MEND]: the report has a finding like that, and says that to mend it.
found() {
	matches "$1" "^  $2" "$report"
	[ -z "${3-}" ] || matches "... and how to mend it" "^        mend .*$3" "$(grep -EA2 "^  $2" <<<"$report")"
}

examine() {
	report=$("$farpage" doctor --verbose "$@")
	status=$?
}

# As a user without rights, who may lock so many KiB.
examine_as_user() {
	local kib=$1
	shift
	report=$(ulimit -l "$kib" && setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		"$farpage" doctor --verbose "$@")
	status=$?
}

examine
expect "a machine without RDMA is no failure" 0 $status
found "but a warning" "warn  devices +no RDMA device; tcp:// works" "modprobe -a rdma_rxe rdma_ucm"
found "and there are no ports" "skip  port "
examine --donor rdma://10.77.0.1
expect "unless rdma:// is asked for" 1 $status
found "which needs a device" "fail  devices +no RDMA device"
found "as the donor's finding says, too" "fail  donor rdma://10.77.0.1 +this host has no RDMA device" "tcp://HOST"

found "ublk that is not loaded is nobody's concern" "skip  ublk +its module is not loaded" "modprobe ublk_drv"
found "nor FUSE" "skip  FUSE +no /dev/(fuse|loop-control)" "modprobe (fuse|loop)"
found "nor that there can be no swap device" "skip  swap by tcp:// +neither ublk nor FUSE" ""
examine --swap 64M
expect "unless one is asked for" 1 $status
found "which then is a failure" "fail  swap by tcp:// +neither ublk nor FUSE" "Kernel"
modprobe -a fuse loop
examine --swap 64M
expect "with FUSE there can be" 0 $status
found "FUSE" "pass  FUSE +can be used: devices are slower"
found "and best effort is the best of it" "warn  swap by FUSE over tcp:// +best effort: .* if the daemon dies" "ublk"
modprobe ublk_drv
echo 1024 >/proc/sys/vm/min_free_kbytes
examine --swap 64M
found "ublk" "pass  ublk +can be used, and devices outlive their daemon"
found "what the daemon may do" "pass  rights of the daemon "
found "a reserve too small for TCP" "warn  swap by ublk over tcp:// +best effort: .* is 1024, where" \
	"sysctl vm.min_free_kbytes=[0-9]+"
reserve=$(sed -n 's/.*sysctl vm.min_free_kbytes=\([0-9]*\) .*/\1/p' <<<"$report")
echo "$reserve" >/proc/sys/vm/min_free_kbytes
examine --swap 64M
found "one that is enough" "warn  swap by ublk over tcp:// +best effort: .*, $reserve, is enough" "RDMA device"

modprobe -a dummy rdma_rxe
ip link add far0 type dummy
ip link set far0 mtu 1500 up
rdma link add rxe0 type rxe netdev far0
examine
expect "RDMA that is not ready is none either" 0 $status
found "the device" "pass  devices +rxe0 \(soft-RoCE\)"
found "no connection manager" "warn  connecting +/dev/infiniband/rdma_cm: No such file" "modprobe rdma_ucm"
found "no address" "warn  port rxe0/1 +active, but no GID" "ip address add ADDRESS/LENGTH dev far0"
found "small packets" "warn  packets of rxe0/1 +1024 bytes: works, with 4 packets a page" "ip link set far0 mtu 9000"
found "the device's limits" "pass  limits of rxe0 +[0-9]+ queue pairs of [0-9]+ operations"

modprobe rdma_ucm
interface_up far0 "${RXE_ADDRESSES[@]}"
wait_for 10 gid_is_set rxe0 ${#RXE_ADDRESSES[@]}
examine
expect "all is well" 0 $status
found "connecting" "pass  connecting "
found "a port with an address" "pass  port rxe0/1 +active, Ethernet \(RoCE v2\), on far0 as 10.77.0.1 and others"
found "a page is a packet" "pass  packets of rxe0/1 +4096 bytes: a page is one packet"
found "soft-RoCE is not kernel-bypass" "warn  swap by ublk over rdma:// +best effort: an RDMA device in software"
# Emulated processors encrypt slowly.
expect "no warnings" "" "$(grep '^  warn' <<<"$report" | grep -v -e '^  warn  swap by ' -e '^  warn  encryption ')"

ip link set far0 down
examine
found "a port that is down" "warn  port rxe0/1 +the port is down" "ip link set far0 up"
found "whose packets nobody knows" "skip  packets of rxe0/1 "
ip link set far0 up
wait_for 10 gid_is_set rxe0 1

examine_as_user 8192 --donate 64M --donor tcp://10.77.0.1:1
found "what a user may lock" "warn  locked memory +8M is enough up to --local 64M" "ulimit -l"
found "is too little for a donor" "fail  locked memory of a donor +8M, less than 64M" "LimitMEMLOCK"
found "userfaultfd is root's" "fail  userfaultfd +no right" "unprivileged_userfaultfd=1"
found "devices are root's" "skip  rights of the daemon +devices and swap are root's"
examine_as_user 1024
found "too little for any client" "fail  locked memory +1M; .* too little for any" "ulimit -l"
sysctl -qw vm.unprivileged_userfaultfd=1
examine_as_user unlimited
found "until root lets them" "pass  userfaultfd +may be used \(vm.unprivileged_userfaultfd is 1\)"
found "but forks are not seen" "warn  forks +forks are not seen" "CAP_SYS_PTRACE"
found "and all may be locked" "pass  locked memory +unlimited"

huge_pages 32
sysctl -qw vm.overcommit_memory=2 vm.max_map_count=1024 kernel.io_uring_disabled=2
echo never >/sys/kernel/mm/transparent_hugepage/enabled
examine --donate 128M
found "a pool too small" "warn  hugetlb pages +64M set aside .*less than the 128M to lend" "vm.nr_hugepages=64"
found "no huge pages" "warn  transparent huge pages +.*never" "echo madvise"
found "strict accounting" "warn  overcommit +vm.overcommit_memory is 2" "vm.overcommit_memory=0"
found "few mappings" "warn  mappings of a process +vm.max_map_count is only 1024" "vm.max_map_count=65530"
found "io_uring switched off" "warn  io_uring +no io_uring" "kernel.io_uring_disabled=0"
sysctl -qw vm.overcommit_memory=0 vm.max_map_count=65530 kernel.io_uring_disabled=0
huge_pages 0

siw_modules
rdma link add siw0 type siw netdev far0
examine
found "iWARP beside it" "pass  devices +(rxe0 \(soft-RoCE\), siw0 \(soft iWARP\)|siw0 \(soft iWARP\), rxe0 \(soft-RoCE\))"
found "and its port" "pass  port siw0/1 +active, iWARP"
rdma link delete siw0

"$farpage" key /run/key >/run/made
"$memserver" --listen rdma://10.77.0.1 --donate 64M --slab 16M --key /run/key >/run/donor 2>&1 &
donor=$!
wait_for 20 grep -q " listening on rdma://" /run/donor
examine --key /run/key --donor rdma://10.77.0.1 --donor rdma://10.77.0.2:9 --donor rdma://127.0.0.1
expect "one donor of three" 1 $status
found "answers over RDMA" "pass  donor rdma://10.77.0.1 +answers as rdma://10.77.0.1:7470"
found "what it has" "pass  room on rdma://10.77.0.1 +64M free of 64M in slabs of 16M, other clients: 0"
found "how far it is" "(pass|warn)  way to rdma://10.77.0.1 +message and answer [0-9]+ us"
found "one is not there" "fail  donor rdma://10.77.0.2:9 +connection refused" "farpage-memserver"
found "one is not on the RDMA network" "fail  donor rdma://127.0.0.1 +no RDMA device of this host leads" "address"
found "swap to its own memory" "warn  swap by ublk over rdma:// +unsafe: the donor is this very machine" "other machines"
path=$("$farpage" disk attach --name scratch --size 32M --donor rdma://10.77.0.1 --key /run/key 2>/run/attached)
examine
found "a device that is served" "pass  device scratch +$path is served"
"$farpage" disk leave scratch
expect "its daemon leaves" 0 $?
examine
found "and the device waits for another" "warn  device scratch +its daemon has ended; $path waits" "farpage disk adopt scratch"
expect "which comes" "$path" "$("$farpage" disk adopt scratch 2>/run/adopted)"
examine
found "and serves it" "pass  device scratch +$path is served"
"$farpage" disk detach scratch
expect "until it is no more" "0 0" "$? $(ls /run/farpage | wc -l)"
kill $donor
wait $donor
expect "nothing of it is left in the kernel" "" "$(rdma resource show cm_id | grep ' state ')"
tap_done
