#!/bin/bash
# test_swap_safety.sh: in one machine, a daemon serves swap space (ublk, rdma://). While pages come and go, no thread of
# the daemon takes a page fault, maps memory or writes a line. Its threads enter the kernel only for their queues. The
# daemon is locked in memory, the OOM killer spares it, and its memory is bounded.
. tests/vm/guest.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/vm/swap.sh
tracing=/sys/kernel/debug/tracing

# Prints the name and the numbers of minor and major faults of each thread of the daemon.
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

# System calls that wait for queues and move their contents: read, write, poll, ioctl (of ublk and verbs), sched_yield,
# sendto, recvfrom, sendmsg, recvmsg, clock_gettime, epoll_wait, epoll_ctl, ppoll, epoll_pwait, timerfd_settime,
# io_uring_enter, epoll_pwait2.
# After a second without an answer the main thread also calls pread64, to see if memory is short (relief.h).
allowed=(0 1 7 16 17 24 44 45 46 47 228 232 233 271 281 286 426 441)

# Enabling an event rewrites code of the running kernel. Emulated processors fail at this while they are busy. So the
# events are enabled first. Later only filters change.
events=(raw_syscalls/sys_enter syscalls/sys_enter_write exceptions/page_fault_user)
echo 0 >$tracing/tracing_on
for event in "${events[@]}"; do
	echo 1 >"$tracing/events/$event/enable"
done

# trace_start TASK...: traces calls that are not allowed, writes to descriptors 0 to 2, and page faults.
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

# Prints the trace without its head.
traced() {
	grep -v '^#' $tracing/trace
}

rxe_up
swap_modules ublk_drv
sysctl -qw vm.page-cluster=0
donors_start 2 160M --slab 16M
check "swap on makes swap space of ublk over rdma://" swap_on swap 192M || note "$(cat "$OUTPUT")"
check "a job with less than half of its memory local fills its memory" job_start 40 16 until check
check "the job swaps pages in before the trace" job_works 500
thread_faults >/run/before
# shellcheck disable=SC2046 # a list of numbers
trace_start $(thread_ids)
check "the job swaps pages in during the trace" job_works 2000
trace_stop
thread_faults >/run/after
expect "no thread of the daemon takes a page fault, starts or ends" "$(cat /run/before)" "$(cat /run/after)"
note "$(cat /run/after)"
expect "the kernel's trace has no page fault of the daemon" 0 "$(traced | grep -c page_fault)"
# Once a second the main thread, on which no request waits, publishes the status: getpid, getppid, pwrite64 and ftruncate.
publishes="-$(device_worker swap) .* NR (18|39|77|110) "
expect "the daemon makes only system calls that serve its queues" "" \
	"$(traced | grep -v page_fault | grep -Ev -- "$publishes" |
		sed 's/^ *\(.*\)-[0-9]* .*: \(sys_enter.*\)/\1 \2/' | sort | uniq -c | head -20)"

# Shows that the trace works.
trace_start $$
: "$(cat /dev/null)"
trace_stop
[ "$(traced | grep -c page_fault)" -gt 0 ] && [ "$(traced | grep -c sys_enter)" -gt 0 ]
ok $? "the same trace sees calls and faults of this shell"

pages=$(awk -v device="$DEVICE" '$1 == device { print $4 / 4 }' /proc/swaps)
memory=0
for pid in $(device_pids swap); do
	part=$(sed -n 's/^Pss:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup")
	note "$(tr '\0' ' ' <"/proc/$pid/cmdline"): $(grep -E '^Vm(RSS|Lck|Size)' "/proc/$pid/status" | tr -s ' \t\n' ' '), Pss $part kB"
	memory=$((memory + part))
	expect "the OOM killer spares process $pid of the daemon" -1000 "$(cat "/proc/$pid/oom_score_adj")"
	[ "$(sed -n 's/^VmLck:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")" -gt 0 ]
	ok $? "process $pid of the daemon has locked memory"
	expect "process $pid of the daemon has no memory swapped out" 0 \
		"$(sed -n 's/^VmSwap:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")"
done
[ $memory -gt 0 ] && [ $memory -le $(((64 << 10) + pages * 16 / 1024)) ]
ok $? "the daemon has at most 64 MiB + 16 bytes for each of $pages pages ($memory KiB)"
# PR_SET_IO_FLUSHER sets PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE.
for stat in /proc/"$(device_worker swap)"/task/*/stat; do
	flags=$(sed 's/^.*) //' "$stat" | awk '{ print $7 }')
	[ $((flags & 0x180000)) -eq $((0x180000)) ]
	ok $? "reclaim in thread $(sed 's/^[0-9]* (\(.*\)) .*/\1/' "$stat") does not wait for the device"
done
job_next until
job_end
expect "the job ends with no page wrong" 0 $?
check "swap off succeeds" swap_off swap || note "$(cat "$OUTPUT")"
expect_nothing_left

tap_done
