#!/bin/bash
# SIGTERM ends a program also while its pager starts and waits for a donor that does not answer.
# test_start.sh HEAP ARENA: HEAP uses the C library's malloc. ARENA has its own malloc, which maps memory under a lock.
. tests/lib/donor.sh
require_userfaultfd
donors_start 1 64M --slab 8M
kill -STOP "${DONOR_PIDS[0]}"

pager_starts() {
	ended "$1" || { grep -qs '^Name:.farpage-' /proc/"$1"/task/*/status && [ "$(cat /proc/"$1"/task/*/comm | grep -vc spare)" -gt 2 ]; }
}

# ended_by_sigterm NAME VICTIM: checks that SIGTERM ends the program while its pager starts.
ended_by_sigterm() {
	local name=$1 pid
	FARPAGE_LOCAL=16M FARPAGE_DONORS=${DONOR_URIS[0]} FARPAGE_TIMEOUT_MS=60000 \
		LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY SIZE_MB=64 "$2" >/dev/null 2>"$FOLDER/err" &
	pid=$!
	wait_for 60 pager_starts $pid
	kill -TERM "$pid"
	wait "$pid"
	expect "SIGTERM ends a program with $name while its pager starts" 143 $?
}
ended_by_sigterm "the C library's malloc" "$1"
ended_by_sigterm "its own malloc" "$2"
kill -CONT "${DONOR_PIDS[0]}"
tap_done
