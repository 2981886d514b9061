#!/bin/bash
# test_swap_death.sh: in one machine, a job has pages on two swap spaces at once, one of ublk and one of FUSE. Then one
# of two donors dies under the swap space of ublk. The job dies of SIGBUS or ends well, nothing hangs, and the swap
# space stays usable.
. tests/vm/guest.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv fuse loop
sysctl -qw vm.page-cluster=0

donors_start 2 160M --slab 8M
FRONTEND=ublk
check "swap on makes swap space of ublk" swap_on one 128M --priority 5 || note "$(cat "$OUTPUT")"
FRONTEND=fuse
check "swap on makes swap space of FUSE beside that of ublk" swap_on two 128M --priority 5 || note "$(cat "$OUTPUT")"
expect "both swap spaces are in use with priority 5" "5 5" "$(awk 'NR > 1 { print $5 }' /proc/swaps | xargs)"
check "a job on two swap spaces fills its memory" job_start 40 16 until check
check "the job swaps pages in" job_works 500
check "both swap spaces hold more than 1 MiB of pages" [ "$(awk 'NR > 1 && $4 > 1024' /proc/swaps | wc -l)" -eq 2 ]
note "$(cat /proc/swaps)"
job_next until
job_end
expect "the job on two swap spaces ends with no page wrong" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
check "swap off switches the swap space of FUSE off" swap_off two || note "$(cat "$OUTPUT")"

check "a job on the swap space of ublk fills its memory" job_start 40 16 until check
job_works 500
donor_kill 0
# The job dies of SIGBUS at a lost page, at the latest when it checks all pages.
wait_for 3 ended $JOB || echo >&9
check "the job ends within 23 s after a donor is killed" wait_for 20 ended $JOB
kill -KILL $JOB 2>/dev/null
job_end
status=$?
[ $status -eq 0 ] || [ $status -eq 135 ]
ok $? "the job dies of SIGBUS or ends well after a donor is killed (status $status)"
expect "the job reads no wrong page after a donor is killed" 0 "$(grep -c '^page' "$JOB_SAID")"
expect "the swap space is still in use after a donor is killed" 1 "$(tail -n +2 /proc/swaps | wc -l)"
check "another job fills its memory after a donor is killed" job_start 40 16 until check
job_works 500
job_next until
job_end
expect "another job ends with no page wrong on the donor that lives" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
check "swap off switches the swap space of ublk off after a donor is killed" swap_off one || note "$(cat "$OUTPUT")"
expect "no swap space is left" "" "$(tail -n +2 /proc/swaps)"
expect_nothing_left
tap_done
