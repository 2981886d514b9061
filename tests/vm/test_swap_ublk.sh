#!/bin/bash
# test_swap_ublk.sh: in one machine, a job checks each of its pages on swap space (ublk, rdma://). Meanwhile the daemon
# is killed, the device is adopted, the daemon is replaced, and the swap space is switched off.
. tests/vm/guest.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv

# phase_over NAME: checks that the job goes on and that its pages were right until now. Prints its longest stall.
phase_over() {
	check "$1: the job swaps pages in" job_works 500
	job_next until
	expect "$1: the job runs, with no page wrong" "" "$(grep wrong "$JOB_SAID"; kill -0 $JOB 2>&1)"
	wait_for 5 job_told stall $((++phases))
	note "$1: longest stall $(job_stall) ms"
}
phases=0

# Prints the time, in ms, from the keeper's line about the killed worker to the line of the next worker in the kernel
# log.
restart_ms() {
	dmesg | sed -n 's/^\[ *\([0-9]*\)\.\([0-9]\{3\}\).*farpage-blockdev: .*\(killed by signal 9\|is served again\)$/\1\2 \3/p' |
		awk '/killed/ { killed = $1 } /served/ && killed { print $1 - killed; exit }'
}

# The test fills this machine's memory later. The donors are on the same machine, and must not take their memory back
# then.
donors_start 2 160M --slab 16M --reserve 1M
check "swap on makes swap space of ublk over rdma://" swap_on swap 192M || note "$(cat "$OUTPUT")"
expect "the swap space is in use" 1 "$(grep -c "^$DEVICE " /proc/swaps)"
note "$(cat "$OUTPUT.device" /proc/swaps)"
# Without readahead, so that only pages that are asked for come from swap.
sysctl -qw vm.page-cluster=0
job_start 40 16 until stall until stall until stall until stall until check
ok $? "a job with less than half of its memory local fills its memory"
phase_over "undisturbed"

worker=$(device_worker swap)
daemon_kill "$worker"
check "worker killed: the keeper starts another worker" wait_for 10 device_worker_new swap "$worker"
job_mark
check "worker killed: the job swaps pages in again" wait_for 10 job_turnover 100
phase_over "worker killed"
restart=$(restart_ms)
stall=$(job_stall)
[ -n "$restart" ] && [ "${stall%.*}" -le $((restart + 1000)) ]
ok $? "worker killed: the longest stall is at most 1 s longer than the restart" \
	|| note "$(dmesg | grep farpage-blockdev)"
note "the restart took $restart ms"

mapfile -t pids < <(device_pids swap)
daemon_kill "${pids[@]}"
timeout 20 "$FARPAGE" disk adopt swap >"$OUTPUT" 2>&1
ok $? "disk adopt adopts swap space whose keeper and worker are killed" || note "$(cat "$OUTPUT")"
phase_over "both killed"

mapfile -t pids < <(device_pids swap)
timeout 20 "$FARPAGE" disk adopt swap >"$OUTPUT" 2>&1
ok $? "disk adopt replaces a daemon that serves swap space" || note "$(cat "$OUTPUT")"
check "the old daemon ends after disk adopt" wait_for 5 processes_ended "${pids[@]}"
phase_over "replaced"

fails "disk detach refuses a device that is swap space" device_detach swap || note "$(cat "$OUTPUT")"
# Leaves too little memory for the pages on the swap space. The job is stopped meanwhile: it would use new places on the
# swap space, so the donors would need the memory that is left, and take their slabs back.
kill -STOP $JOB
mount -t tmpfs -o size=90% none /mnt
available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
fallocate -l $((available - 18 * 1024))K /mnt/ballast
fails "swap off refuses while the pages do not fit into memory" swap_off swap
matches "swap off names both amounts of memory when it refuses" "[0-9.]+[KMG].*[0-9.]+[KMG]" "$(cat "$OUTPUT")"
note "$(cat "$OUTPUT")"
expect "the swap space stays in use after a refused swap off" 1 "$(grep -c "^$DEVICE " /proc/swaps)"
umount /mnt
kill -CONT $JOB
fails "swap off refuses while the job's control group has no room for the pages" swap_off swap || note "$(cat "$OUTPUT")"
check "the job still runs after a refused swap off" kill -0 $JOB
job_limit 80
check "swap off succeeds under load when there is room" swap_off swap || note "$(cat "$OUTPUT")"
expect "no swap space is left after swap off" "" "$(tail -n +2 /proc/swaps)"
job_next until
job_end
status=$?
expect "the job ends with no page wrong" 0 $status
[ $status = 0 ] || note "$(dmesg | grep -v 'speed is unknown' | tail -n 30)"
note "$(tail -n 3 "$JOB_SAID")"
expect_nothing_left
tap_done
