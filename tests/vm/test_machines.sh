#!/bin/bash
# Two machines: a donor, and jobs on a client machine.
#
#   pair.py 'bash tests/vm/test_machines.sh FABRIC PART...' and the same again      FABRIC: rdma, siw (iWARP) or tcp
#
# The donor machine runs two donors, one on each rail, in each of its lives. The client machine prints the TAP: part
# after part, each a function part_PART of a file test_machines_FILE.sh, where FILE is PART's first word. FARPAGE_EXE, FARPAGE_MEMSERVER, FARPAGE_PRELOAD_LIBRARY, FARPAGE_PAGES,
# FARPAGE_SLABS name the programs.
# shellcheck disable=SC2034 # used by the parts
. tests/vm/guest.sh
. tests/func/preload/tap.sh

KEY=(--key /share/key)
fabric=$1
scheme=${fabric/siw/rdma}

# pause SECONDS: without a process, and to the millisecond.
pause() {
	read -rt "$1" <>/run/pause
}

now_us() {
	echo "${EPOCHREALTIME/./}"
}

# order WORD...: machine and rail of guest.sh, but without a process, so that BEFORE and AFTER, in microseconds, enclose
# closely when it was carried out.
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

# donor_start RAIL OPTION...
donor_start() {
	"$FARPAGE_MEMSERVER" --listen "$scheme://10.77.$1.1" --donate 192M "${KEY[@]}" "${@:2}" >"/run/donor$1" 2> >(tee "/run/donor$1.err" >&2) &
	DONOR_PIDS[$1]=$!
	wait_for 20 grep -q listening "/run/donor$1" || guest_fail "no donor on rail $1"
}

# How often the donor on rail 0 has been woken, and the microseconds of processor time that it has used: the latter as the
# scheduler counts it, which takes the kernel's work for soft-RoCE for that of whom it interrupts.
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

# The slabs that it has lent and taken back so far.
donor_leases() {
	grep -c -e "leases slab" -e "gave slab" /run/donor0.err
}

# Answers the client's questions, each one of the functions above, until the machine is switched off.
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

LIFE=1 # the donor machine's
QUESTION=0
declare -A JOB_PIDS

# donor_ask FUNCTION: on the donor machine; its output in ANSWER.
donor_ask() {
	QUESTION=$((QUESTION + 1))
	share_tell "question$LIFE.$QUESTION" "$1"
	ANSWER=$(share_wait "answer$LIFE.$QUESTION" 40)
}

# The donor machine, which was killed, starts; donors_wait: it is there again.
donors_start_again() {
	LIFE=$((LIFE + 1)) QUESTION=0
	order start donor
}

donors_wait() {
	share_wait "ready$LIFE" 100 >/dev/null
	# Programs come over from the host when they are first run: here, and not where time counts.
	{ wait_for 20 nothing_leased 0 && wait_for 20 nothing_leased 1; } || guest_fail "the donors do not answer"
}

stamped() {
	local line
	while IFS= read -r line; do
		echo "${EPOCHREALTIME/./} $line"
	done
}

# job NAME RAILS OPTION... -- COMMAND...: in the background, 8 MiB local, its lines in /run/NAME.out and .err, those
# of .err with the time before them; RAILS as in 0 or 01. Its input is held open: job_go NAME gives it a byte.
job() {
	local name=$1 rails=$2 donors=() rail
	shift 2
	for rail in ${rails//[01]/& }; do
		donors+=(--donor "$scheme://10.77.$rail.1")
	done
	rm -f "/run/$name".*
	mkfifo "/run/$name.in"
	# In a shell of its own, which keeps to itself that a signal has killed it; the status tells.
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

# job_end NAME SECONDS: waits for it, at most so long; its status in STATUS.
job_end() {
	wait_for "$2" job_over "$1" || {
		STATUS="it does not end"
		kill -KILL "${JOB_PIDS[$1]}"
		return
	}
	wait "${JOB_PIDS[$1]}" 2>/dev/null
	STATUS=$?
}

# Whether the job NAME has said so: on standard output, on standard error.
job_did() {
	grep -qxs -- "$2" "/run/$1.out"
}

job_told() {
	grep -qs -- "$2" "/run/$1.err"
}

# job_lines NAME PATTERN: how many lines on standard error.
job_lines() {
	grep -c -- "$2" "/run/$1.err"
}

# job_time NAME PATTERN [SINCE]: when, in microseconds, the first such line was said, from SINCE on.
job_time() {
	awk -v pattern="$2" -v since="${3:-0}" '$1 >= since && $0 ~ pattern { print $1; exit }' "/run/$1.err"
}

job_wait() {
	wait_for "$3" job_did "$1" "$2" || {
		ok 1 "the job $1 comes to '$2'"
		job_show "$1"
		tap_done
	}
}

job_show() {
	note "$1: $(cat "/run/$1.out" "/run/$1.err" 2>&1)"
}

# Tests that the job NAME has ended well and has read no wrong byte.
job_fine() {
	job_end "$1" "$2"
	expect "$3" "0 1" "$STATUS $(grep -c '^passes .* wrong 0 ' "/run/$1.out")"
	note "$1: $(grep ^passes "/run/$1.out")"
	[ "$STATUS" = 0 ] || job_show "$1"
}

# Tests that the job NAME has died of SIGBUS, with one line on why, that matches.
job_lost() {
	job_end "$1" "$2"
	expect "$3: SIGBUS" 135 "$STATUS"
	expect "$3: one line says why" 1 "$(job_lines "$1" "$4")"
	expect "$3: nothing wrong was read" 0 "$(grep -c "is wrong" "/run/$1.out")"
	[ "$STATUS $(job_lines "$1" "$4")" = "135 1" ] || job_show "$1"
}

# Bytes leased from the donor on rail $1.
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
