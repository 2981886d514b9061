# device.sh: block devices of farpage for a test. Bash scripts in the checkout source this file. FARPAGE and
# FARPAGE_MEMSERVER name the programs; FARPAGE_BLOCKS names the program built from tests/func/blockdev/blocks.c.
#
# This file sources donor.sh. Each test gets its own runtime folder, $FARPAGE_RUNTIME, so several tests can run on one
# machine at the same time. The front end is FUSE unless FARPAGE_TEST_FRONTEND names another.
#
#   device_require [PROGRAM...]        skips the test if devices are not possible here or one of the programs is missing
#   device_attach NAME SIZE [OPTION..] attaches a device to DONORS; sets DEVICE; writes messages to $OUTPUT; returns the
#                                      command's status
#   device_detach NAME                 detaches the device; writes messages to $OUTPUT; returns the command's status
#   device_pids [NAME]                 prints the processes of all devices of this test, or of one; the keeper first
#   device_worker NAME                 prints the process that serves the device
#   device_worker_new NAME PID         succeeds if a process other than PID serves the device
#   device_left                        prints the remains of this test's devices on the machine, one a line
#   donor_leased URI                   prints the bytes that a donor has leased
#   donor_mark                         notes the first donor's number of descriptors and its memory
#   expect_donor_unchanged             checks that the first donor has no more of either
#   blocks_start MIB STEP...           starts blocks on DEVICE in the background and waits for its first check; sets job;
#                                      closing descriptor 9 ends the step wait; its output is the file $said
#   blocks_of WORD FILE STEP           prints the last figure that blocks printed for a step: of "failed", "wrong", ...
# shellcheck shell=bash disable=SC2034

. tests/lib/donor.sh

FRONTEND=${FARPAGE_TEST_FRONTEND:-fuse}
export FARPAGE_RUNTIME=$FOLDER/run
OUTPUT=$FOLDER/output
said=$FOLDER/blocks
mkdir "$FARPAGE_RUNTIME"
# `farpage swap on` raises kernel settings. On this machine it gets copies of the files in /proc/sys/vm. In a virtual
# machine it raises the kernel's own.
if [ -z "${VM_NAME:-}" ]; then
	export FARPAGE_SYSCTL_VM=$FOLDER
	echo 1000 >"$FARPAGE_SYSCTL_VM/min_free_kbytes"
	echo 10 >"$FARPAGE_SYSCTL_VM/watermark_scale_factor"
fi
# Daemons outlive the commands that start them, so sanitizers report to files, and the test checks them at its end.
for sanitizer in ASAN UBSAN TSAN; do
	declare -n options=${sanitizer}_OPTIONS
	export "${sanitizer}_OPTIONS=${options:+$options:}log_path=$FOLDER/report"
done

device_require() {
	local program
	[ "$(id -u)" = 0 ] || skip_all "block devices need root"
	case $FRONTEND in
	fuse)
		[ -w /dev/fuse ] || skip_all "there is no /dev/fuse"
		[ -w /dev/loop-control ] || skip_all "there are no loop devices"
		;;
	ublk) [ -w /dev/ublk-control ] || skip_all "there is no /dev/ublk-control" ;;
	esac
	for program; do
		command -v "$program" >/dev/null || skip_all "$program is not installed"
	done
}

device_attach() {
	local name=$1 size=$2 status
	shift 2
	DEVICE=
	timeout 20 "$FARPAGE" disk attach --name "$name" --size "$size" --frontend "$FRONTEND" "${DONORS[@]}" "$@" \
		>"$OUTPUT.device" 2>"$OUTPUT"
	status=$?
	[ $status -ne 0 ] || DEVICE=$(tail -n 1 "$OUTPUT.device")
	return $status
}

device_detach() {
	timeout 20 "$FARPAGE" disk detach "$1" >"$OUTPUT" 2>&1
}

# The runtime folder in a process's environment tells its test, and --name in its arguments tells its device.
device_pids() {
	local pid pids=() parents=() parent
	while read -r pid; do
		pid=${pid#/proc/}
		grep -qsz "^FARPAGE_RUNTIME=$FARPAGE_RUNTIME\$" "/proc/$pid/environ" || continue
		[ -z "${1:-}" ] || grep -Eqsz "^(--name=)?$1\$" "/proc/$pid/cmdline" || continue
		pids+=("$pid")
	done < <(find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' -lname '*/farpage-blockdev' -printf '%h\n' 2>/dev/null)
	for pid in "${pids[@]}"; do
		parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
		case " ${pids[*]} " in
		*" $parent "*) parents+=("$pid") ;;
		*) parents=("$pid" "${parents[@]}") ;;
		esac
	done
	[ ${#parents[@]} -eq 0 ] || printf '%s\n' "${parents[@]}"
}

device_worker() {
	device_pids "$1" | sed -n 2p
}

device_worker_new() {
	local worker
	worker=$(device_worker "$1")
	[ -n "$worker" ] && [ "$worker" != "$2" ]
}

device_left() {
	local pid
	for pid in $(device_pids); do
		echo "process $pid"
	done
	grep -F "$FARPAGE_RUNTIME" /proc/self/mounts | sed 's/^/mount /'
	losetup --list --noheadings --output NAME,BACK-FILE | grep -F "$FARPAGE_RUNTIME" | sed 's/^/loop device /'
	find "$FARPAGE_RUNTIME" -mindepth 1 ! -name .lock | sed 's/^/file /'
	[ "$FRONTEND" != ublk ] || find /dev -maxdepth 1 -name 'ublk[bc]*' | sed 's/^/device /'
}

donor_leased() {
	timeout 10 "$FARPAGE" donors --json --donor "$1" | sed -n 's/.*"leased_bytes": *\([0-9]*\).*/\1/p'
}

donor_descriptors() {
	find "/proc/${DONOR_PIDS[0]}/fd" -mindepth 1 | wc -l
}

donor_memory() {
	sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/${DONOR_PIDS[0]}/status"
}

donor_mark() {
	donor_marked_descriptors=$(donor_descriptors)
	donor_marked_memory=$(donor_memory)
}

expect_donor_unchanged() {
	# There may be fewer descriptors: the connection of the last question was still open when donor_mark counted
	# them.
	wait_for 5 eval '[ "$(donor_descriptors)" -le "$donor_marked_descriptors" ]'
	ok $? "the donor has no more descriptors than before the cycles" ||
		note "before: $donor_marked_descriptors, after: $(donor_descriptors)"
	[ "$(donor_memory)" -le $((donor_marked_memory + 2048)) ]
	bounded $? "the donor has at most 2 MiB more memory than before the cycles" ||
		note "before: $donor_marked_memory KiB, after: $(donor_memory) KiB"
}

# Succeeds if no donor that runs has leased anything.
donors_idle() {
	local index
	for index in "${!DONOR_PIDS[@]}"; do
		[ "$(donor_leased "${DONOR_URIS[index]}")" = 0 ] || return 1
	done
}

nothing_left() {
	[ -z "$(device_left)" ]
}

# Checks at the end: no device is left, and no slab is leased.
expect_nothing_left() {
	wait_for "${1:-5}" nothing_left
	expect "no process, mount, device or file of the test's devices is left" "" "$(device_left)"
	check "no donor has a leased slab" wait_for "${1:-5}" donors_idle || note "$(tail -n 8 "$FOLDER"/donor.*.err)"
	[ -z "${FARPAGE_TEST_SANITIZED:-}" ] ||
		expect "no sanitizer has reported a fault" "" "$(head -n 40 "$FOLDER"/report.* 2>/dev/null)"
}

blocks_start() {
	mkfifo "$FOLDER/go"
	timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" "$@" >"$said" <"$FOLDER/go" &
	job=$!
	exec 9>"$FOLDER/go"
	wait_for 30 said "^check " "$said" $job
}

blocks_of() {
	awk -v word="$1" -v step="$3" '$1 == step { for (i = 2; i < NF; i++) if ($i == word) found = $(i + 1) } END { print found }' "$2"
}

# bounded STATUS NAME: a check of used memory. It is skipped with sanitizers, because they use much memory themselves.
bounded() {
	if [ -n "${FARPAGE_TEST_SANITIZED:-}" ]; then
		ok 0 "$2 # SKIP sanitizers take memory, too"
	else
		ok "$1" "$2"
	fi
}

# Removes the remains of a failed test by force.
device_cleanup() {
	local name pid line
	for name in "$FARPAGE_RUNTIME"/*/; do
		[ ! -d "$name" ] || "$FARPAGE" disk detach "$(basename "$name")" >/dev/null 2>&1
	done
	for pid in $(device_pids); do
		kill -KILL "$pid"
	done
	if [ -n "$(device_left)" ]; then
		losetup --list --noheadings --output NAME,BACK-FILE | grep -F "$FARPAGE_RUNTIME" | while read -r name line; do
			losetup --detach "$name"
		done
		grep -F "$FARPAGE_RUNTIME" /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r line; do
			umount --lazy "$line"
		done
	fi
}
at_exit device_cleanup
