#!/bin/bash
# SIGTERM ends a program also while its pager starts and waits for a donor that does not answer.
# test_start.sh HEAP ARENA: HEAP uses the C library's malloc. ARENA has its own malloc, which maps memory under a lock.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
donors_start 1 64M --slab 8M
kill -STOP "${DONOR_PIDS[0]}"

# ended NAME VICTIM: checks that SIGTERM ends the program while its pager starts.
ended() {
	local name=$1 pid status
	FARPAGE_LOCAL=16M FARPAGE_DONORS=${DONOR_URIS[0]} FARPAGE_TIMEOUT_MS=60000 \
		LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY SIZE_MB=64 "$2" >/dev/null 2>"$DONORS_DIRECTORY/err" &
	pid=$!
	until grep -qs '^Name:.farpage-' /proc/"$pid"/task/*/status && [ "$(cat /proc/$pid/task/*/comm | grep -vc spare)" -gt 2 ]; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.02
	done
	kill -TERM "$pid"
	wait "$pid"
	status=$?
	expect "SIGTERM ends a program with $name while its pager starts" 143 $status
}
ended "the C library's malloc" "$1"
ended "its own malloc" "$2"
kill -CONT "${DONOR_PIDS[0]}"
tap_done
