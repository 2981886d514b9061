#!/bin/bash
# A machine of 512 MiB, without a control group, works through three times its memory on swap space of farpage. The
# donor is another machine. The daemon of the device gets only the memory that the job leaves. No task deadlocks or is
# killed, and every page is right. `farpage swap off` restores all settings that `farpage swap on` has changed.
#
#   pair.py -m 512 --donor-memory 2304 'bash tests/vm/test_pressure.sh FABRIC SECONDS CHECK-SECONDS' and the same again
#
# FABRIC: rdma or tcp. FARPAGE, FARPAGE_MEMSERVER and FARPAGE_PRESSURE (pressure.c) name the programs.
# shellcheck disable=SC2154
. tests/vm/guest.sh
. tests/lib/tap.sh

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
	# The machines are emulated on processors with other load. So a pause of a second, or of a minute, is no fault.
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

# doctor_says ID: prints status and text of the finding of doctor.
doctor_says() {
	"$FARPAGE" doctor --json | python3 -c 'import json, sys
for one in json.load(sys.stdin):
    if one["id"] == sys.argv[1]:
        print(one["status"], one["found"])' "$1"
}

# policies PID: prints the scheduling policies of the threads of the process, each policy once.
policies() {
	sed 's/^.*) //' "/proc/$1"/task/*/stat | awk '{ print $39 }' | sort -u | xargs
}

# Prints the number of pages written to swap space since the machine started.
pages_out() {
	awk '$1 == "pswpout" { print $2 }' /proc/vmstat
}

donor_answers() {
	"$FARPAGE" donors --donor "$fabric://10.77.0.1:$PORT"
}

share_wait ready 100 >/dev/null
# The first run of a program fetches it from the host. That must not happen later, in measured time.
wait_for 60 donor_answers >/run/told 2>&1 || guest_fail "the donor does not answer: $(tail -n 1 /run/told)"
modprobe ublk_drv
sysctl -qw kernel.hung_task_timeout_secs=60 kernel.sysrq=1
before=$(values)
"$FARPAGE" swap on --size ${SWAP_MIB}M --donor "$fabric://10.77.0.1:$PORT" --frontend ublk --timeout-ms 600000 --grace 590 --log /run/log \
	>/run/device 2>/run/told
ok $? "swap on makes swap space on another machine over $fabric" || {
	note "$(cat /run/told)"
	tap_done
}
during=$(values)
note "vm.min_free_kbytes and vm.watermark_scale_factor: $before, now $during"
[ "${during% *}" -gt "${before% *}" ] && [ "${during#* }" -gt "${before#* }" ]
ok $? "swap on raises vm.min_free_kbytes and vm.watermark_scale_factor"
matches "swap on prints the settings it raised in one line" \
	"^set for as long as swap is there: vm.min_free_kbytes ${before% *} -> ${during% *}, .*" \
	"$(cat /run/told)"
matches "doctor reports the settings that swap on raised" \
	"^pass raised for as long as swap is there: vm.min_free_kbytes ${before% *} -> ${during% *}" \
	"$(doctor_says swap.reserves)"
pids=$(daemons)
expect "all threads of the daemon run with the policy SCHED_RR" 2 "$(policies "${pids##* }")"
expect "the daemon has a control group of its own" "0::/farpage-swap" "$(cat /proc/${pids##* }/cgroup)"
expect "the control group of the daemon has protected memory" max "$(cat $group/memory.min)"

# The job's output must not wait for memory itself, so it goes to a ramfs.
mkdir /run/job
mount -t ramfs ramfs /run/job
"$FARPAGE_PRESSURE" $JOB_MIB "$seconds" "$check_seconds" >/run/job/out 2>&1
status=$?
note "$(cat /run/job/out)"
expect "a job of $JOB_MIB MiB on a machine of 512 MiB ends with no page wrong" 0 $status
# Other load of the processors limits the progress of the job. So $OUT_LEAST is a low number of pages.
[ "$(pages_out)" -ge $OUT_LEAST ]
ok $? "the job swaps at least $OUT_LEAST pages out to the other machine"
note "$(pages_out) pages were swapped out"
expect "the daemon is the same process as before the job" "$pids" "$(daemons)"
expect "the kernel has killed no task for memory and reports no hung task" \
	"" "$(dmesg | grep -E 'oom-kill|Out of memory|blocked for more than')"
[ ! -s /run/log ] || note "$(cat /run/log)"
timeout 60 "$FARPAGE" swap off >/run/told 2>&1
ok $? "swap off succeeds" || note "$(cat /run/told)"
expect "swap off restores the kernel's settings" "$before" "$(values)"
expect "swap off removes the control group" "" "$(ls -d $group 2>/dev/null)"
matches "doctor reports the settings that the next swap on would raise" \
	"^pass .*${before% *}.* raises that while its device is there, to .*${during% *}" \
	"$(doctor_says swap.reserves)"
tap_done
