#!/bin/bash
# test_verbs_programs.sh FARPAGE MEMSERVER PAGES PRELOAD: in one machine, what the programs do where RDMA is not to be had,
# where they have no rights to it, and when it goes away; and what is left of them.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
farpage=$1 memserver=$2 pages=$3 preload=$4
user=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)

# refused NAME PATTERN COMMAND...: it ends with an error, soon, and says why in one line.
refused() {
	local name=$1 pattern=$2 status
	shift 2
	timeout 20 "$@" >/run/output 2>&1
	status=$?
	[ $status -ne 0 ] && [ $status -ne 124 ]
	ok $? "$name: status $status"
	matches "... and why" "$pattern" "$(cat /run/output)"
	expect "... in one line" 1 "$(wc -l </run/output)"
}

donor_refused() {
	refused "a donor $1" "$2" "${@:3}" "$memserver" --insecure --donate 64M --listen rdma://10.77.0.1
}

client_refused() {
	refused "a client $1" "$2" "${@:3}" "$farpage" run --local 16M --donor rdma://10.77.0.1 -- true
}

# Of this kernel's, what belongs to programs.
kept() {
	rdma resource show "$1" 2>/dev/null | grep -c ' pid '
}

nothing_kept() {
	[ "$(kept qp) $(kept cq) $(kept mr) $(kept pd) $(kept cm_id) $(kept ctx)" = "0 0 0 0 0 0" ]
}

donor_start() {
	"$memserver" --insecure --donate 192M --slab 16M --listen rdma://10.77.0.1 --grace 2 >/run/donor 2>&1 &
	donor=$!
	wait_for 10 rdma_listens 7470
}

# The job fills its memory, then waits for a byte.
job_start() {
	rm -f /run/go
	mkfifo /run/go
	"$farpage" run --local 16M --timeout-ms 2000 --donor rdma://10.77.0.1 -- "$pages" 64 wait check </run/go >/run/job 2>&1 &
	job=$!
	exec 9>/run/go
	wait_for 60 grep -q filled /run/job
}

donor_refused "without a device" "no RDMA device"
client_refused "without a device" "no RDMA device"
modprobe rdma_rxe
far_interface
rdma_device rxe rxe0 far0
# The RDMA netlink would load it when asked.
echo "install rdma_ucm /bin/false" >/etc/modprobe.d/no-rdma_ucm.conf
donor_refused "without the connection manager" "RDMA"
client_refused "without the connection manager" "rdma_ucm|RDMA"
rm /etc/modprobe.d/no-rdma_ucm.conf
modprobe rdma_ucm
sysctl -qw vm.unprivileged_userfaultfd=1
chmod 600 /dev/infiniband/rdma_cm
donor_refused "without rights to the connection manager" "no right to use .*/dev/infiniband" "${user[@]}"
client_refused "without rights to the connection manager" "[Pp]ermission" "${user[@]}"
chmod 666 /dev/infiniband/rdma_cm

donor_start
chmod 600 /dev/infiniband/uverbs0
client_refused "without rights to the device" "[Pp]ermission|RDMA device" "${user[@]}"
chmod 666 /dev/infiniband/uverbs0

job_start
ok $? "a job with far memory over rdma://"
kill -KILL "$(pgrep -x "${pages##*/}")"
wait $job
wait_for 10 eval '[ "$(kept qp)" -eq 0 ]'
ok $? "the queue pairs of a job that was killed are gone"
job_start
kill -TERM "$(pgrep -x "${pages##*/}")"
wait $job
wait_for 10 eval '[ "$(kept qp)" -eq 0 ]'
ok $? "those of a job that was ended are gone"
job_start
kill -KILL $donor
wait $donor
exec 9>&-
wait $job
wait_for 10 nothing_kept
ok $? "a donor killed with leases: nothing is kept"

donor_start
job_start
kill -TERM $donor
wait $donor
exec 9>&-
wait $job
wait_for 10 nothing_kept
ok $? "a donor ended with leases: nothing is kept"

# Without `farpage run` beside it, which reached for the donor before and has the device open until it ends.
donor_start
rm -f /run/go
mkfifo /run/go
FARPAGE_LOCAL=16M FARPAGE_DONORS=rdma://10.77.0.1 FARPAGE_TIMEOUT_MS=2000 LD_PRELOAD=$preload \
	"$pages" 64 wait check </run/go >/run/job 2>&1 &
job=$!
exec 9>/run/go
wait_for 60 grep -q filled /run/job
rdma link delete rxe0 &
removal=$!
gone() {
	! kill -0 $removal 2>/dev/null
}
wait_for 20 gone
ok $? "the device of a donor and its client can be removed"
kill -0 $donor
ok $? "the donor lives"
expect "and says so" 1 "$(grep -c 'rxe0: the RDMA device was removed' /run/donor)"
expect "as does the client" 1 "$(grep -c 'rxe0: the RDMA device was removed' /run/job)"
exec 9>&-
wait $job
status=$?
[ $status -eq 135 ]
ok $? "its job gets SIGBUS for what was there (status $status)"
rdma_device rxe rxe0 far0
wait_for 10 rdma_listens 7470
ok $? "a new device is listened on"
timeout 20 "$farpage" donors --donor rdma://10.77.0.1 >/run/output 2>&1
ok $? "and the donor is reached by it"
note "$(cat /run/donor /run/job /run/output)"
kill -TERM $donor
wait $donor
wait_for 10 nothing_kept
ok $? "and it leaves nothing"
tap_done
