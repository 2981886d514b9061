#!/bin/bash
# Two machines: one runs donors, the other runs jobs.
#
#   pair.py 'bash tests/vm/test_machines.sh FABRIC PART...' and the same again      FABRIC: rdma, siw (iWARP) or tcp
#
# The donor machine runs two donors, one on each rail, in each of its lives. The client machine runs the parts and
# prints the TAP. A part is a function part_PART of test_machines_FILE.sh, where FILE is the first word of PART.
# FARPAGE_EXE, FARPAGE_MEMSERVER, FARPAGE_PRELOAD_LIBRARY, FARPAGE_PAGES and FARPAGE_SLABS name the programs.
# shellcheck disable=SC2034 # used by the parts
. tests/vm/guest.sh
. tests/lib/tap.sh

KEY=(--key /share/key)
fabric=$1
scheme=${fabric/siw/rdma}

# pause SECONDS: sleeps without a new process, exact to a millisecond.
pause() {
	read -rt "$1" <>/run/pause
}

now_us() {
	echo "${EPOCHREALTIME/./}"
}

# order WORD...: sends a request as machine and rail of guest.sh do, but without a new process. BEFORE and AFTER are the
# times in microseconds just before and after the rig carries it out.
order() {
	local answer
	BEFORE=${EPOCHREALTIME/./}
	echo "$*" >&"$CONTROL"
	read -r answer <&"$CONTROL"
	AFTER=${EPOCHREALTIME/./}
	[ "$answer" = ok ] || guest_fail "$*: $answer"
}

network_up() {
	mkfifo /run/pause
	rails_up
	case $fabric in
	rdma) rails_rxe ;;
	siw) rails_siw ;;
	esac
}

# --- On the donor machine -------------------------------------------------------------------------------------------

# donor_start RAIL OPTION...: starts a donor and waits until it listens.
donor_start() {
	"$FARPAGE_MEMSERVER" --listen "$scheme://10.77.$1.1" --donate 192M "${KEY[@]}" "${@:2}" >"/run/donor$1" 2> >(tee "/run/donor$1.err" >&2) &
	DONOR_PIDS[$1]=$!
	wait_for 20 grep -q listening "/run/donor$1" || guest_fail "no donor on rail $1"
}

# Prints how often the donor on rail 0 has been woken, and the microseconds of processor time that it has used. With
# soft-RoCE this time is too high: it includes the kernel's soft-RoCE work that interrupts the donor's threads.
donor_work() {
	local task name count used wakes=0 total=0
	for task in "/proc/${DONOR_PIDS[0]}"/task/*; do
		while read -r name count; do
			[ "$name" != voluntary_ctxt_switches: ] || wakes=$((wakes + count))
		done <"$task/status"
		read -r used _ <"$task/schedstat"
		total=$((total + used / 1000))
	done
	echo "$wakes $total"
}

# Prints how many times the donor on rail 0 has lent a slab or taken one back.
donor_leases() {
	grep -c -e "leases slab" -e "gave slab" /run/donor0.err
}

# Answers the client's questions until the machine is switched off. A question is the name of a function.
donor_serve() {
	local question=1 answer
	while true; do
		until [ -e "/share/question$VM_BOOT.$question" ]; do pause 0.2; done
		answer=$("$(cat "/share/question$VM_BOOT.$question")")
		share_tell "answer$VM_BOOT.$question" "$answer"
		question=$((question + 1))
	done
}

donor_machine() {
	[ -e /share/key ] || "$FARPAGE_EXE" key /share/key 2>/dev/null
	donor_start 0 --slab 16M
	donor_start 1 --slab 16M
	share_tell "ready$VM_BOOT"
	donor_serve
}

# --- On the client machine ------------------------------------------------------------------------------------------

LIFE=1 # number of the donor machine's present life
QUESTION=0
declare -A JOB_PIDS

# donor_ask FUNCTION: runs the function on the donor machine. Leaves its output in ANSWER.
donor_ask() {
	QUESTION=$((QUESTION + 1))
	share_tell "question$LIFE.$QUESTION" "$1"
	ANSWER=$(share_wait "answer$LIFE.$QUESTION" 40)
}

# donors_start_again starts the donor machine, which was killed. donors_wait waits until its donors answer.
donors_start_again() {
	LIFE=$((LIFE + 1)) QUESTION=0
	order start donor
}

donors_wait() {
	share_wait "ready$LIFE" 100 >/dev/null
	# The first run of a program fetches it from the host. That must not happen later, in measured time.
	{ wait_for 20 nothing_leased 0 && wait_for 20 nothing_leased 1; } || guest_fail "the donors do not answer"
}

stamped() {
	local line
	while IFS= read -r line; do
		echo "${EPOCHREALTIME/./} $line"
	done
}

# job NAME RAILS OPTION... -- COMMAND...: starts a job with 8 MiB of local memory in the background. RAILS is 0, 1 or
# 01. The job's lines go to /run/NAME.out and /run/NAME.err, in the latter with the time before each line. Its standard
# input stays open. job_go NAME writes a byte there.
job() {
	local name=$1 rails=$2 donors=() rail
	shift 2
	for rail in ${rails//[01]/& }; do
		donors+=(--donor "$scheme://10.77.$rail.1")
	done
	rm -f "/run/$name".*
	mkfifo "/run/$name.in"
	# A shell of its own prints no message if a signal kills the job.
	(
		"$FARPAGE_EXE" run --local 8M --quiet "${KEY[@]}" "${donors[@]}" "$@" <>"/run/$name.in" >"/run/$name.out" \
			2> >(stamped >"/run/$name.err")
		exit $?
	) 2>/dev/null {CONTROL}>&- &
	JOB_PIDS[$name]=$!
}

job_go() {
	echo >"/run/$1.in"
}

job_over() {
	! kill -0 "${JOB_PIDS[$1]}" 2>/dev/null
}

# job_end NAME SECONDS: waits at most SECONDS for the end of the job. Leaves its exit status in STATUS.
job_end() {
	wait_for "$2" job_over "$1" || {
		STATUS="it does not end"
		kill -KILL "${JOB_PIDS[$1]}"
		return
	}
	wait "${JOB_PIDS[$1]}" 2>/dev/null
	STATUS=$?
}

# job_did NAME LINE: succeeds if the job has printed the line to standard output. job_told NAME PATTERN: succeeds if a
# line that the job has printed to standard error matches.
job_did() {
	grep -qxs -- "$2" "/run/$1.out"
}

job_told() {
	grep -qs -- "$2" "/run/$1.err"
}

# job_lines NAME PATTERN: prints the number of lines on standard error that match.
job_lines() {
	grep -c -- "$2" "/run/$1.err"
}

# job_time NAME PATTERN [SINCE]: prints the time, in microseconds, of the first line on standard error that matches,
# from SINCE on.
job_time() {
	awk -v pattern="$2" -v since="${3:-0}" '$1 >= since && $0 ~ pattern { print $1; exit }' "/run/$1.err"
}

job_wait() {
	wait_for "$3" job_did "$1" "$2" || {
		ok 1 "the job $1 prints '$2' in time"
		job_show "$1"
		tap_done
	}
}

job_show() {
	note "$1: $(cat "/run/$1.out" "/run/$1.err" 2>&1)"
}

# job_fine NAME SECONDS TEXT: checks that the job ends with status 0 and has read no wrong byte.
job_fine() {
	job_end "$1" "$2"
	expect "$3" "0 1" "$STATUS $(grep -c '^passes .* wrong 0 ' "/run/$1.out")"
	note "$1: $(grep ^passes "/run/$1.out")"
	[ "$STATUS" = 0 ] || job_show "$1"
}

# job_lost NAME SECONDS TEXT PATTERN: checks that the job dies of SIGBUS, with one line that matches.
job_lost() {
	job_end "$1" "$2"
	expect "$3: the job dies of SIGBUS" 135 "$STATUS"
	expect "$3: one line says why" 1 "$(job_lines "$1" "$4")"
	expect "$3: the job reads no wrong page" 0 "$(grep -c "is wrong" "/run/$1.out")"
	[ "$STATUS $(job_lines "$1" "$4")" = "135 1" ] || job_show "$1"
}

# leased RAIL: prints the bytes leased from the donor on the rail.
leased() {
	"$FARPAGE_EXE" donors --json "${KEY[@]}" --donor "$scheme://10.77.$1.1" | sed -n 's/.*"leased_bytes":\([0-9]*\).*/\1/p'
}

nothing_leased() {
	[ "$(leased "$1")" = 0 ]
}

ms() {
	echo "$((($1 + 500) / 1000)) ms"
}

client_machine() {
	local part
	if [ "$VM_BOOT" = 1 ]; then donors_wait; fi
	for part in "$@"; do
		note "$part, at $SECONDS s"
		"part_$part"
	done
	note "done at $SECONDS s"
	tap_done
}

exec {CONTROL}<>/dev/virtio-ports/control
network_up
for part in "${@:2}"; do
	# shellcheck disable=SC1090
	. "tests/vm/test_machines_${part%%_*}.sh"
done
if [ "$VM_NAME" = donor ]; then
	donor_machine
else
	client_machine "${@:2}"
fi
