#!/bin/bash
# A whole machine of 512 MiB, no control group, works through three times its memory on a swap device of farpage, whose
# donor is another machine; the device's daemon has what the job leaves it. Nothing deadlocks, nobody is killed, every page
# is right; and what `farpage swap on` has changed on the machine is as before after `farpage swap off`.
#
#   pair.py -m 512 --donor-memory 2304 'bash tests/vm/test_pressure.sh FABRIC SECONDS CHECK-SECONDS' and the same again
#
# FABRIC: rdma or tcp. FARPAGE, FARPAGE_MEMSERVER and FARPAGE_PRESSURE (pressure.c) name the programs.
# shellcheck disable=SC2154
. tests/vm/guest.sh
. tests/func/preload/tap.sh

fabric=$1
seconds=$2
check_seconds=$3
PORT=7470
JOB_MIB=1536
SWAP_MIB=1792
OUT_LEAST=5000 # pages
group=/sys/fs/cgroup/farpage-swap

rails_up
[ "$fabric" = tcp ] || rails_rxe

if [ "$VM_NAME" = donor ]; then
	# The machines are emulated, on processors that others use as well: a pause of a second,
	# or of a minute, says nothing.
	"$FARPAGE_MEMSERVER" --listen "$fabric://10.77.0.1:$PORT" --donate $((SWAP_MIB + 64))M --slab 16M --insecure --heartbeat 2000 --grace 600 \
		>/run/donor &
	wait_for 60 grep -q listening /run/donor || guest_fail "no donor"
	share_tell ready
	wait
	exit
fi

values() {
	sysctl -n vm.min_free_kbytes vm.watermark_scale_factor | xargs
}

daemons() {
	pgrep -x farpage-blockde | xargs
}

# Of the finding ID of doctor: status and text.
doctor_says() {
	"$FARPAGE" doctor --json | python3 -c 'import json, sys
for one in json.load(sys.stdin):
    if one["id"] == sys.argv[1]:
        print(one["status"], one["found"])' "$1"
}

# The policy of each thread of a process, once.
policies() {
	sed 's/^.*) //' "/proc/$1"/task/*/stat | awk '{ print $39 }' | sort -u | xargs
}

# Pages that went to the swap device since the machine started.
pages_out() {
	awk '$1 == "pswpout" { print $2 }' /proc/vmstat
}

donor_answers() {
	"$FARPAGE" donors --donor "$fabric://10.77.0.1:$PORT"
}

share_wait ready 100 >/dev/null
# Programs come over from the host when they are first run: here, and not where time counts.
wait_for 60 donor_answers >/run/told 2>&1 || guest_fail "the donor does not answer: $(tail -n 1 /run/told)"
modprobe ublk_drv
sysctl -qw kernel.hung_task_timeout_secs=60 kernel.sysrq=1
before=$(values)
"$FARPAGE" swap on --size ${SWAP_MIB}M --donor "$fabric://10.77.0.1:$PORT" --frontend ublk --timeout-ms 600000 --grace 590 --log /run/log \
	>/run/device 2>/run/told
ok $? "swap space on another machine, over $fabric" || {
	note "$(cat /run/told)"
	tap_done
}
during=$(values)
note "vm.min_free_kbytes and vm.watermark_scale_factor: $before, now $during"
[ "${during% *}" -gt "${before% *}" ] && [ "${during#* }" -gt "${before#* }" ]
ok $? "both are raised"
matches "... which it tells, in one line" "^set for as long as swap is there: vm.min_free_kbytes ${before% *} -> ${during% *}, .*" \
	"$(cat /run/told)"
matches "... and doctor" "^pass raised for as long as swap is there: vm.min_free_kbytes ${before% *} -> ${during% *}" \
	"$(doctor_says swap.reserves)"
pids=$(daemons)
expect "what serves it runs in real time, all of its threads" 2 "$(policies "${pids##* }")"
expect "... in a control group of its own" "0::/farpage-swap" "$(cat /proc/${pids##* }/cgroup)"
expect "... whose memory is protected" max "$(cat $group/memory.min)"

# What the job says must not wait for memory itself.
mkdir /run/job
mount -t ramfs ramfs /run/job
"$FARPAGE_PRESSURE" $JOB_MIB "$seconds" "$check_seconds" >/run/job/out 2>&1
status=$?
note "$(cat /run/job/out)"
expect "a job of $JOB_MIB MiB on a machine of 512 comes to its end, and no page is wrong" 0 $status
# How far it comes in its time is a matter of who else uses the processors; this much swapping is little.
[ "$(pages_out)" -ge $OUT_LEAST ]
ok $? "... some of it on the other machine"
note "$(pages_out) pages were swapped out"
expect "the daemon is the same" "$pids" "$(daemons)"
expect "nobody was killed, nothing hung" "" "$(dmesg | grep -E 'oom-kill|Out of memory|blocked for more than')"
[ ! -s /run/log ] || note "$(cat /run/log)"
timeout 60 "$FARPAGE" swap off >/run/told 2>&1
ok $? "swap off" || note "$(cat /run/told)"
expect "... puts the kernel's values back" "$before" "$(values)"
expect "... and removes the control group" "" "$(ls -d $group 2>/dev/null)"
matches "... and doctor tells what the next would set" "^pass .*${before% *}.* raises that while its device is there, to .*${during% *}" \
	"$(doctor_says swap.reserves)"
tap_done
