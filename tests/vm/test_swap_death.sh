#!/bin/bash
# test_swap_death.sh: in one machine, one of two donors dies under swap space: the job gets SIGBUS or completes, nothing hangs,
# and the swap space stays usable. Two swap spaces at once, one of ublk and one of FUSE, and pages on both.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0
. tests/func/blockdev/device.sh
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv fuse loop
sysctl -qw vm.page-cluster=0

donors_start 2 160M --slab 8M
FRONTEND=ublk
swap_on one 128M --priority 5
ok $? "swap space of ublk" || note "$(cat "$OUTPUT")"
FRONTEND=fuse
swap_on two 128M --priority 5
ok $? "and another of FUSE" || note "$(cat "$OUTPUT")"
expect "both are in use, with their priority" "5 5" "$(awk 'NR > 1 { print $5 }' /proc/swaps | xargs)"
job_start 40 16 until check
ok $? "a job on both"
job_works 500
ok $? "... pages come and go"
[ "$(awk 'NR > 1 && $4 > 1024' /proc/swaps | wc -l)" -eq 2 ]
ok $? "... on both"
note "$(cat /proc/swaps)"
job_next until
job_end
expect "no page was wrong" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
swap_off two
ok $? "the one of FUSE is switched off" || note "$(cat "$OUTPUT")"

job_start 40 16 until check
ok $? "a job on the other"
job_works 500
donor_kill 0
# It ends by SIGBUS at one of the lost pages; if not before, when it checks them all.
job_ended() {
	! kill -0 $JOB 2>/dev/null
}
wait_for 3 job_ended || echo >&9
wait_for 20 job_ended
ok $? "a donor is killed: the job does not hang"
kill -KILL $JOB 2>/dev/null
job_end
status=$?
[ $status -eq 0 ] || [ $status -eq 135 ]
ok $? "... it ends by SIGBUS, or well (status $status)"
expect "... and no page was wrong" 0 "$(grep -c '^page' "$JOB_SAID")"
expect "the swap space is in use still" 1 "$(tail -n +2 /proc/swaps | wc -l)"
job_start 40 16 until check
ok $? "another job is started"
job_works 500
job_next until
job_end
expect "another job can use it, on the donor that lives" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
swap_off one
ok $? "it is switched off" || note "$(cat "$OUTPUT")"
expect "no swap space is left" "" "$(tail -n +2 /proc/swaps)"
expect_nothing_left
tap_done
