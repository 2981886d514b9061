# swap.sh: swap on far memory in a virtual machine. Scripts source it after guest.sh; it sources
# tests/func/blockdev/device.sh. FARPAGE_PAGES names the program of pages.c, which writes and checks its own memory.
#
#   swap_on NAME SIZE [OPTION...]    makes swap space on DONORS; sets DEVICE; leaves messages in $OUTPUT; returns the
#                                    command's status
#   swap_off NAME                    switches swap space off; leaves messages in $OUTPUT; returns the command's status
#   job_start MIB LOCAL STEP...      starts pages MIB STEP... in a control group with LOCAL MiB; returns when it has written
#                                    all pages. JOB is its process, $JOB_SAID its output, descriptor 9 its standard input
#   job_limit LOCAL                  gives the control group another limit
#   job_next STEP [SECONDS]          ends a step that waits for a byte, and waits for its line
#   job_end                          ends the job's input, waits for the job, returns its status
#   job_stall                        prints the last stall, in ms, that a step "stall" has reported
#   job_mark                         notes the number of pages that came from swap space
#   job_turnover PAGES               succeeds if so many pages have come from swap space since job_mark
#   job_works PAGES                  waits until so many pages have come from swap space
#   daemon_kill PID...               kills the processes with SIGKILL; returns when they have ended
# shellcheck shell=bash disable=SC2034,SC2154

. tests/func/blockdev/device.sh

JOB_SAID=/run/job/out
job_group=/sys/fs/cgroup/job

# donors_make PREFIX OPTION...: starts donors 1 to 4. A donor's address is PREFIX and its number.
donors_make() {
	local number
	for number in 1 2 3 4; do
		donor_run $number "$1$number:7470" --insecure "${@:2}"
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

# Without memory.high, memory.max would kill the job while its pages are on their way out.
job_limit() {
	echo "$(($1 + 16))M" >"$job_group/memory.max"
	echo "${1}M" >"$job_group/memory.high"
}

job_start() {
	local mib=$1 local=$2
	shift 2
	mkdir -p "$job_group" /run/job
	# A ramfs, so that the job's output is not swapped out. A tmpfs reported I/O errors when donors were lost.
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

# job_said TEXT: succeeds if the job has printed a line that begins with TEXT, or has ended.
job_said() {
	said "^$1" "$JOB_SAID" "$JOB"
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

# job_told STEP TIMES: succeeds if the job has ended the step so many times, or has ended itself.
job_told() {
	[ "$(job_count "$1")" -ge "$2" ] || ended "$JOB"
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

# Waits until the job has swapped so many pages in.
job_works() {
	job_mark
	wait_for 60 job_turnover "$1"
}

processes_ended() {
	local pid
	for pid; do
		# A zombie has ended, although its parent has not yet waited for it.
		[ ! -e "/proc/$pid" ] || grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || return 1
	done
}

daemon_kill() {
	kill -KILL "$@"
	wait_for 5 processes_ended "$@"
}
