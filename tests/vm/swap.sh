# swap.sh: swap on far memory in a virtual machine; to be sourced after guest.sh, tap.sh and tests/func/blockdev/device.sh.
# FARPAGE_PAGES names pages.c's program, which writes and checks its own memory.
#
#   swap_on NAME SIZE [OPTION...]    on DONORS; sets DEVICE; complaints are in $OUTPUT; status: the command's
#   swap_off NAME
#   job_start MIB LOCAL STEP...      pages MIB STEP... in a control group with LOCAL MiB; returns when all is written. JOB is
#                                    its process, what it says is in $JOB_SAID, its standard input descriptor 9
#   job_limit LOCAL                  another limit from now on
#   job_next STEP [SECONDS]          ends a step that waits for a byte, and waits until it said so
#   job_end                          the end of its input; waits for it; returns its status
#   job_stall                        ms: after the step "stall", the last it told
#   job_turnover PAGES               whether so many pages came from swap space since job_mark
#   job_mark
#   daemon_kill PID...               SIGKILL, and they are gone when it returns
# shellcheck shell=bash disable=SC2034,SC2154

JOB_SAID=/run/job/out
job_group=/sys/fs/cgroup/job

# donors_make PREFIX: donors 1 to 4, each at PREFIX and its number, started by the test's own donor_start.
donors_make() {
	local number
	for number in 1 2 3 4; do
		DONOR_URIS[number]=$1$number:7470
		DONORS+=(--donor "${DONOR_URIS[number]}")
		donor_start $number
	done
}

swap_modules() {
	modprobe -a "$@" || guest_fail "no modules $*"
}

swap_on() {
	local name=$1 size=$2 status
	shift 2
	timeout 30 "$FARPAGE" swap on --name "$name" --size "$size" --frontend "$FRONTEND" "${DONORS[@]}" "$@" \
		>"$OUTPUT.device" 2>"$OUTPUT"
	status=$?
	DEVICE=$(grep -o '/dev/[a-z0-9]*' "$OUTPUT.device" | tail -n 1)
	return $status
}

swap_off() {
	timeout 90 "$FARPAGE" swap off "$1" >"$OUTPUT" 2>&1
}

# Alone, memory.max kills while pages are on their way out.
job_limit() {
	echo "$(($1 + 16))M" >"$job_group/memory.max"
	echo "${1}M" >"$job_group/memory.high"
}

job_start() {
	local mib=$1 local=$2
	shift 2
	mkdir -p "$job_group" /run/job
	# What it says is not to be swapped out, for donors are lost here: a tmpfs gave I/O errors instead of it.
	mountpoint -q /run/job || mount -t ramfs ramfs /run/job
	job_limit "$local"
	rm -f /run/job/in
	mkfifo /run/job/in
	: >"$JOB_SAID"
	bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' job "$job_group" "$FARPAGE_PAGES" "$mib" "$@" \
		</run/job/in >"$JOB_SAID" 2>&1 &
	JOB=$!
	exec 9<>/run/job/in
	wait_for 60 job_said filled
}

# Or has ended.
job_said() {
	grep -q "^$1" "$JOB_SAID" || ! kill -0 "$JOB" 2>/dev/null
}

job_count() {
	grep -c "^$1\$" "$JOB_SAID"
}

job_next() {
	local before
	before=$(job_count "$1")
	echo >&9
	wait_for "${2:-30}" job_told "$1" $((before + 1))
}

# job_told STEP TIMES; or it has ended
job_told() {
	[ "$(job_count "$1")" -ge "$2" ] || ! kill -0 "$JOB" 2>/dev/null
}

job_end() {
	exec 9>&-
	wait "$JOB"
}

job_stall() {
	sed -n 's/^stall_ms \([0-9.]*\) .*/\1/p' "$JOB_SAID" | tail -n 1
}

job_mark() {
	job_marked=$(awk '$1 == "pswpin" { print $2 }' /proc/vmstat)
}

job_turnover() {
	[ "$(awk '$1 == "pswpin" { print $2 }' /proc/vmstat)" -ge $((job_marked + $1)) ]
}

# Pages come in and go out again for a while.
job_works() {
	job_mark
	wait_for 60 job_turnover "$1"
}

processes_ended() {
	local pid
	for pid; do
		# A zombie is one whose parent has not looked yet.
		[ ! -e "/proc/$pid" ] || grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || return 1
	done
}

daemon_kill() {
	kill -KILL "$@"
	wait_for 5 processes_ended "$@"
}
