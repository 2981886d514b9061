#!/bin/bash
# test_replicas.sh: in one machine, a job checks each of its pages on swap space with --replicas 2 on four donors
# (rdma://). Meanwhile processes fail one after the other: a donor stalls, a donor dies, another dies, one dies with the
# daemon of the device, one needs its memory, one is drained. The job goes on, no page is wrong or lost, and nothing
# hangs. Stalls of the job are printed, not checked, because other load of the processors decides them, too.
. tests/vm/guest.sh
export FARPAGE_TEST_FRONTEND=ublk
. tests/vm/swap.sh
swap_modules ublk_drv
# Without readahead, so that only pages that are asked for come from swap.
sysctl -qw vm.page-cluster=0
log=/run/device.log
phases=0
# Other programs also load the processors of this emulated machine. The device must not give up a donor because of this
# load.
PATIENCE_MS=100000
GRACE=110

# --- Donors, numbers 1 to 4 -----------------------------------------------------------------------------------------

# Donor 1 runs in a control group, and takes the group's limit for the memory of the machine. memory_needed uses memory
# in this group.
small_group=/sys/fs/cgroup/small
small_mib=192

groups_make() {
	mkdir $small_group
	echo ${small_mib}M >$small_group/memory.max
	# The only swap space lies on the donors themselves, so donor 1 must not use it.
	echo 0 >$small_group/memory.swap.max
}

memserver=$FARPAGE_MEMSERVER

# The program that donor_run starts as a donor. It has a process of its own, so it can exec. $index is donor_run's.
donor_program() {
	local options=()
	if [ "$index" = 1 ]; then
		echo "$BASHPID" >$small_group/cgroup.procs
		options=(--donate auto --reserve 32M)
	fi
	exec "$memserver" "$@" "${options[@]}"
}
FARPAGE_MEMSERVER=donor_program

# donor_dies NUMBER: kills the donor, once each page has another copy. Returns when the donor is dead.
donor_dies() {
	wait_for 60 device_whole || note "lacking: $(device_counts slabs_lacking)"
	log_mark
	dead=$1
	donor_kill "$1"
}

leased_bytes() {
	timeout 10 "$FARPAGE" disk list --json | tr -d ' \n' | grep -o "\"${DONOR_URIS[$1]}\"[^}]*" |
		sed -n 's/.*"leased_bytes":\([0-9]*\).*/\1/p'
}

# leased_kib NUMBER: prints how much the device leases from the donor, in KiB. If the daemon is busy for a second, as it is
# when donors return, the list has the device without its donors. This does not mean 0, so the function asks again.
leased_kib() {
	local bytes end=$((SECONDS + 30))
	until bytes=$(leased_bytes "$1") && [ -n "$bytes" ] || [ $SECONDS -ge $end ]; do
		sleep 0.05
	done
	echo $((${bytes:-0} >> 10))
}

# fullest NUMBER...: prints the number of the donor that lends most.
fullest() {
	local number
	for number; do
		echo "$(leased_kib "$number") $number"
	done | sort -n | sed -n '$s/.* //p'
}

# --- The device -----------------------------------------------------------------------------------------------------

device_counts() {
	timeout 10 "$FARPAGE" disk list --json | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"
}

log_mark() {
	log_marked=$(wc -l <$log)
}

log_since() {
	tail -n +$((log_marked + 1)) $log
}

device_whole() {
	[ "$(device_counts slabs_lacking)" = 0 ]
}

# Succeeds if the log says that the dead donor was missed and that its pages were copied to other donors. The line about
# the missed donor comes after two seconds, perhaps later than the line about the copies.
device_rebuilt() {
	log_since | awk -v uri="${DONOR_URIS[$dead]}" 'index($0, uri) { missed = 1 } / lack a replica / { done = 0 }
		/rebuild: done/ { done = 1 } END { exit !(missed && done) }' && device_whole
}

# Ends the test if the job has ended.
job_runs() {
	kill -0 "$JOB" 2>/dev/null && return
	ok 1 "the job still runs"
	note "$(cat "$JOB_SAID" $log)"
	tap_done
}

# phase_over NAME: checks that the job goes on with no page wrong or lost. Prints its longest stall.
phase_over() {
	job_runs
	check "$1: the job swaps pages in" job_works 150
	job_next until 60
	wait_for 60 job_told stall $((++phases))
	expect "$1: no page is wrong or lost" "0 0" "$(grep -c wrong "$JOB_SAID") $(device_counts pages_lost)"
	note "$1: longest stall $(job_stall) ms, at $SECONDS s"
	note "$(log_since)"
	log_mark
}

rebuilt_after() {
	job_runs
	wait_for 60 device_rebuilt
	ok $? "$1: the pages of the dead donor are copied to other donors" \
		|| note "lacking: $(device_counts slabs_lacking)"
}

# --- Faults of processes --------------------------------------------------------------------------------------------

# lasting SECONDS: waits, then succeeds if the job goes on through the fault that has just begun.
lasting() {
	sleep "$1"
	# The job waited at most for a request to that donor, which other donors have answered by now.
	job_works 50
}

donor_stalls() {
	kill -STOP "${DONOR_PIDS[$1]}"
	check "donor stalled for 5 s: the job swaps pages in meanwhile" lasting 5
	kill -CONT "${DONOR_PIDS[$1]}"
	check "donor stalled for 5 s: each slab has its replicas again" wait_for 60 device_whole
	phase_over "donor stalled for 5 s"
}

two_die() {
	local first second
	first=$(fullest 2 3 4)
	donor_dies "$first"
	rebuilt_after "donor killed"
	phase_over "donor killed"
	case $first in
	2) second=$(fullest 3 4) ;;
	3) second=$(fullest 2 4) ;;
	4) second=$(fullest 2 3) ;;
	esac
	donor_dies "$second"
	rebuilt_after "the next killed"
	phase_over "the next killed"
	donor_again "$first"
	donor_again "$second"
}

daemon_dies_too() {
	local worker donor
	worker=$(device_worker swap)
	donor=$(fullest 2 3 4)
	donor_dies "$donor"
	daemon_kill "$worker"
	check "donor and daemon killed: the keeper starts another worker" wait_for 30 device_worker_new swap "$worker"
	rebuilt_after "donor and daemon killed"
	phase_over "donor and daemon killed"
	donor_again "$donor"
}

lends_less() {
	[ "$(leased_kib 1)" -lt "$1" ]
}

# A program takes memory until donor 1 has half of its reserve left.
memory_needed() {
	local before
	before=$(leased_kib 1)
	mkdir /run/need
	mount -t tmpfs tmpfs /run/need
	bash -c 'echo $$ >'$small_group'/cgroup.procs; head -c "$1" /dev/zero >/run/need/it' need \
		$((small_mib * 1048576 - 16 * 1048576 - $(cat $small_group/memory.current)))
	# Under so much load the device may have missed the donor for a moment, and have no slab there any more.
	[ "$before" = 0 ] || wait_for 60 lends_less "$before"
	ok $? "donor needs its memory: the device gives slabs back to it"
	check "donor needs its memory: each slab has its replicas again" wait_for 60 device_whole
	note "lent $before KiB, then $(leased_kib 1) KiB"
	phase_over "donor needs its memory"
	umount /run/need
}

donor_drained() {
	timeout 90 "$FARPAGE" donors drain "${DONOR_URIS[$1]}" --timeout 80 >"$OUTPUT" 2>&1
	expect "farpage donors drain succeeds under load" 0 $?
	note "$(cat "$OUTPUT")"
	donor_dies "$1"
	phase_over "donor drained and powered off"
	donor_again "$1"
}

# --- All of it ------------------------------------------------------------------------------------------------------

rxe_up
groups_make
donors_make rdma://10.77.0. --slab 1M --heartbeat 500 --grace "$GRACE" --donate 96M --reserve 16M
swap_on swap 32M --replicas "${REPLICAS:-2}" --log $log --timeout-ms $PATIENCE_MS
ok $? "swap on makes swap space with two replicas" || note "$(cat "$OUTPUT")"
log_mark
job_start 12 5 until stall until stall until stall until stall until stall until stall check
ok $? "a job with less than half of its memory local fills its memory"
job_works 150
for number in 1 2 3 4; do
	note "donor $number lends $(leased_kib $number) KiB"
done
donor_stalls 2
two_die
daemon_dies_too
memory_needed
donor_drained "$(fullest 2 3 4)"
exec 9>&-
wait_for 120 processes_ended "$JOB" || note "$(cat "$JOB_SAID" "/proc/$JOB/stack"; log_since)"
kill -KILL "$JOB" 2>/dev/null
job_end
expect "the job ends with every page right" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
check "swap off succeeds after all faults" swap_off swap || note "$(cat "$OUTPUT")"
expect_nothing_left 15
note "$SECONDS s"
tap_done
