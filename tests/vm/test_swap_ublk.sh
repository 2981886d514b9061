#!/bin/bash
# test_swap_ublk.sh: in one machine, swap space on far memory (ublk, rdma://) under a job that checks each of its pages, while
# the daemon is killed, adopted, replaced, and while it is switched off.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/func/blockdev/device.sh
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv

# phase_over NAME: the job's pages were right until now; tells its longest stall.
phase_over() {
	job_works 500
	ok $? "$1: pages come and go"
	job_next until
	expect "$1: the job runs" "" "$(grep wrong "$JOB_SAID"; kill -0 $JOB 2>&1)"
	wait_for 5 job_told stall $((++phases))
	note "$1: longest stall $(job_stall) ms"
}
phases=0

# From the keeper's line about the worker that was killed to the next worker's, by the kernel log.
restart_ms() {
	dmesg | sed -n 's/^\[ *\([0-9]*\)\.\([0-9]\{3\}\).*farpage-blockdev: .*\(killed by signal 9\|is served again\)$/\1\2 \3/p' |
		awk '/killed/ { killed = $1 } /served/ && killed { print $1 - killed; exit }'
}

donors_start 2 160M --slab 16M --reserve 8M
swap_on swap 192M
ok $? "swap space on far memory" || note "$(cat "$OUTPUT")"
expect "it is in use" 1 "$(grep -c "^$DEVICE " /proc/swaps)"
note "$(cat "$OUTPUT.device" /proc/swaps)"
# Read page by page, so that what comes from swap is what was asked for.
sysctl -qw vm.page-cluster=0
job_start 40 16 until stall until stall until stall until stall until check
ok $? "a job with a third of its memory here"
phase_over "undisturbed"

worker=$(device_worker swap)
daemon_kill "$worker"
wait_for 10 device_worker_new swap "$worker"
ok $? "worker killed: the keeper starts another"
job_mark
wait_for 10 job_turnover 100
ok $? "... and pages come again"
phase_over "worker killed"
restart=$(restart_ms)
stall=$(job_stall)
[ -n "$restart" ] && [ "${stall%.*}" -le $((restart + 1000)) ]
ok $? "... the longest stall is at most a second more than the restart" || note "$(dmesg | grep farpage-blockdev)"
note "the restart took $restart ms"

mapfile -t pids < <(device_pids swap)
daemon_kill "${pids[@]}"
timeout 20 "$FARPAGE" disk adopt swap >"$OUTPUT" 2>&1
ok $? "keeper and worker killed, and adopted" || note "$(cat "$OUTPUT")"
phase_over "both killed"

mapfile -t pids < <(device_pids swap)
timeout 20 "$FARPAGE" disk adopt swap >"$OUTPUT" 2>&1
ok $? "adopted while it serves" || note "$(cat "$OUTPUT")"
wait_for 5 processes_ended "${pids[@]}"
ok $? "... the old daemon is gone"
phase_over "replaced"

timeout 20 "$FARPAGE" disk detach swap >"$OUTPUT" 2>&1
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "a device that is swap space is not detached" || note "$(cat "$OUTPUT")"
# What is far does not fit: refused.
mount -t tmpfs -o size=90% none /mnt
available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
fallocate -l $((available - 18 * 1024))K /mnt/ballast
swap_off swap
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "it is not switched off while its pages would not fit"
matches "... and says so with figures" "[0-9.]+[KMG].*[0-9.]+[KMG]" "$(cat "$OUTPUT")"
note "$(cat "$OUTPUT")"
expect "... and is used on" 1 "$(grep -c "^$DEVICE " /proc/swaps)"
umount /mnt
swap_off swap
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "nor while the job's control group has no room for them" || note "$(cat "$OUTPUT")"
kill -0 $JOB
ok $? "... and the job lives"
job_limit 80
swap_off swap
ok $? "swap off under load" || note "$(cat "$OUTPUT")"
expect "no swap space is left" "" "$(tail -n +2 /proc/swaps)"
job_next until
job_end
expect "the job ends, and no page was wrong" 0 $?
note "$(tail -n 3 "$JOB_SAID")"
expect_nothing_left
tap_done
