#!/bin/bash
# test_swap_safety.sh: in one machine, a daemon that serves swap space (ublk, rdma://): while pages come and go no thread of
# it takes a page fault, maps memory, writes a line, or enters the kernel for anything but its queues; it is locked in
# memory, spared by the OOM killer, and its memory is bounded.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/func/blockdev/device.sh
. tests/vm/swap.sh
tracing=/sys/kernel/debug/tracing

# Of each thread of the daemon: "minor major comm".
thread_faults() {
	local pid
	for pid in $(device_pids swap); do
		cat "/proc/$pid"/task/*/stat
	done | sed 's/^\([0-9]*\) (\(.*\)) [A-Z] /\1 \2 @ /' | awk '{ comm = $2; for (i = 3; $i != "@"; i++) comm = comm "_" $i
		print $1, comm, "minor", $(i + 7), "major", $(i + 9) }'
}

thread_ids() {
	local pid
	for pid in $(device_pids swap); do
		ls "/proc/$pid/task"
	done
}

# Calls that wait for queues, and move what is in them: read, write, poll, ioctl (of ublk and verbs), sched_yield, sendto,
# recvfrom, sendmsg, recvmsg, clock_gettime, epoll_wait, ppoll, epoll_pwait, timerfd_settime, io_uring_enter; and pread64, by
# which the main thread looks after a second without an answer whether that is for lack of memory (relief.h).
allowed=(0 1 7 16 17 24 44 45 46 47 228 232 271 281 286 426)

# Enabling an event rewrites code of the running kernel, which emulated processors do not bear while they are busy: so
# that is done first of all, and later on there are only filters.
events=(raw_syscalls/sys_enter syscalls/sys_enter_write exceptions/page_fault_user)
echo 0 >$tracing/tracing_on
for event in "${events[@]}"; do
	echo 1 >"$tracing/events/$event/enable"
done

# trace_start TASK...
trace_start() {
	local number pid others='' tasks=''
	for number in "${allowed[@]}"; do
		others+=" && id != $number"
	done
	for pid; do
		tasks+="${tasks:+ || }common_pid == $pid"
	done
	echo "($tasks)$others" >$tracing/events/raw_syscalls/sys_enter/filter
	echo "($tasks) && fd < 3" >$tracing/events/syscalls/sys_enter_write/filter
	echo "$tasks" >$tracing/events/exceptions/page_fault_user/filter
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
}

trace_stop() {
	echo 0 >$tracing/tracing_on
}

# What was traced, without the head.
traced() {
	grep -v '^#' $tracing/trace
}

rxe_up
swap_modules ublk_drv
sysctl -qw vm.page-cluster=0
donors_start 2 160M --slab 16M
swap_on swap 192M
ok $? "swap space on far memory" || note "$(cat "$OUTPUT")"
job_start 40 16 until check
ok $? "a job"
job_works 500
ok $? "... whose pages come and go"
thread_faults >/run/before
# shellcheck disable=SC2046 # a list of numbers
trace_start $(thread_ids)
job_works 2000
ok $? "... for a while"
trace_stop
thread_faults >/run/after
expect "no thread of the daemon took a fault, and none came or went" "$(cat /run/before)" "$(cat /run/after)"
note "$(cat /run/after)"
expect "by the kernel's trace, too" 0 "$(traced | grep -c page_fault)"
expect "no memory was mapped, no line written; calls for nothing but queues" "" \
	"$(traced | grep -v page_fault | sed 's/^ *\(.*\)-[0-9]* .*: \(sys_enter.*\)/\1 \2/' | sort | uniq -c | head -20)"

# Can these means see anything?
trace_start $$
: "$(cat /dev/null)"
trace_stop
[ "$(traced | grep -c page_fault)" -gt 0 ] && [ "$(traced | grep -c sys_enter)" -gt 0 ]
ok $? "(this shell's own calls and faults are seen by the same means)"

pages=$(awk -v device="$DEVICE" '$1 == device { print $4 / 4 }' /proc/swaps)
memory=0
for pid in $(device_pids swap); do
	part=$(sed -n 's/^Pss:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup")
	note "$(tr '\0' ' ' <"/proc/$pid/cmdline"): $(grep -E '^Vm(RSS|Lck|Size)' "/proc/$pid/status" | tr -s ' \t\n' ' '), Pss $part kB"
	memory=$((memory + part))
	expect "spared by the OOM killer" -1000 "$(cat "/proc/$pid/oom_score_adj")"
	[ "$(sed -n 's/^VmLck:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")" -gt 0 ]
	ok $? "locked in memory"
	expect "nothing of it is swapped out" 0 "$(sed -n 's/^VmSwap:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")"
done
[ $memory -gt 0 ] && [ $memory -le $(((64 << 10) + pages * 16 / 1024)) ]
ok $? "its memory ($memory KiB) is at most 64 MiB and 16 bytes for each of $pages pages"
# PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE: what PR_SET_IO_FLUSHER sets.
for stat in /proc/"$(device_worker swap)"/task/*/stat; do
	flags=$(sed 's/^.*) //' "$stat" | awk '{ print $7 }')
	[ $((flags & 0x180000)) -eq $((0x180000)) ]
	ok $? "thread $(sed 's/^[0-9]* (\(.*\)) .*/\1/' "$stat"): reclaim does not wait for its own device"
done
job_next until
job_end
expect "no page of the job was wrong" 0 $?
swap_off swap
ok $? "swap off" || note "$(cat "$OUTPUT")"
expect_nothing_left

tap_done
