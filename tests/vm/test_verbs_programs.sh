#!/bin/bash
# test_verbs_programs.sh FARPAGE MEMSERVER PAGES PRELOAD: in one machine, runs the programs without RDMA, without rights
# to RDMA, and while the RDMA device is removed. Checks that the programs leave no RDMA resources.
. tests/vm/guest.sh
. tests/lib/tap.sh
farpage=$1 memserver=$2 pages=$3 preload=$4
user=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)

donor_refused() {
	refused "a donor $1" any "$2" "${@:3}" "$memserver" --insecure --donate 64M --listen rdma://10.77.0.1
}

client_refused() {
	refused "a client $1" any "$2" "${@:3}" "$farpage" run --local 16M --donor rdma://10.77.0.1 -- true
}

# kept TYPE: prints the number of RDMA resources of the type that belong to programs.
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

# Starts a job. Returns when it has filled its memory and waits for a byte.
job_start() {
	rm -f /run/go
	mkfifo /run/go
	"$farpage" run --local 16M --timeout-ms "${timeout_ms:-2000}" --donor rdma://10.77.0.1 -- "$pages" 64 wait check </run/go >/run/job 2>&1 &
	job=$!
	exec 9>/run/go
	wait_for 60 grep -q filled /run/job
}

donor_refused "without a device" "no RDMA device"
client_refused "without a device" "no RDMA device"
modprobe rdma_rxe
far_interface
rdma_device rxe rxe0 far0
# The RDMA netlink would load the module on request.
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

check "a job with far memory over rdma:// fills its memory" job_start
kill -KILL "$(pgrep -x "${pages##*/}")"
wait $job
check "a job that is killed leaves no queue pairs" wait_for 10 eval '[ "$(kept qp)" -eq 0 ]'
job_start
kill -TERM "$(pgrep -x "${pages##*/}")"
wait $job
check "a job that is ended by SIGTERM leaves no queue pairs" wait_for 10 eval '[ "$(kept qp)" -eq 0 ]'
job_start
kill -KILL $donor
wait $donor
exec 9>&-
wait $job
check "a donor that is killed with leases, and its job, leave no RDMA resources" wait_for 10 nothing_kept

donor_start
timeout_ms=30000 job_start
kill -USR2 $donor
check "a donor at rdma:// is upgraded, and the next program takes over its slabs" wait_for 20 grep -q 'took over [1-9]' /run/donor
exec 9>&-
wait $job
expect "a job finds all its pages again after its rdma:// donor was upgraded" 0 $?
kill -TERM $donor
wait $donor
check "an upgraded donor and its job leave no RDMA resources" wait_for 10 nothing_kept

donor_start
job_start
kill -TERM $donor
wait $donor
exec 9>&-
wait $job
check "a donor that is ended with leases, and its job, leave no RDMA resources" wait_for 10 nothing_kept

# This job has no `farpage run` beside it, which would keep the device open until it ends.
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
check "the RDMA device of a donor and its client is removed within 20 s" wait_for 20 ended $removal
check "the donor still runs without its RDMA device" kill -0 $donor
expect "the donor reports the removed RDMA device in one line" 1 \
	"$(grep -c 'rxe0: the RDMA device was removed' /run/donor)"
expect "the client reports the removed RDMA device in one line" 1 \
	"$(grep -c 'rxe0: the RDMA device was removed' /run/job)"
exec 9>&-
wait $job
status=$?
[ $status -eq 135 ]
ok $? "the job dies of SIGBUS when its RDMA device is removed (status $status)"
rdma_device rxe rxe0 far0
check "the donor listens on a new RDMA device within 10 s" wait_for 10 rdma_listens 7470
timeout 20 "$farpage" donors --donor rdma://10.77.0.1 >/run/output 2>&1
ok $? "farpage donors reaches the donor over the new RDMA device"
note "$(cat /run/donor /run/job /run/output)"
kill -TERM $donor
wait $donor
check "the donor leaves no RDMA resources when it ends" wait_for 10 nothing_kept
tap_done
