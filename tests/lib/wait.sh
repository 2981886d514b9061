# wait.sh: waiting for conditions, for tests in bash.
#
#   wait_for SECONDS COMMAND...   waits until the command succeeds; returns 1 if it never does
#   ended PID                     succeeds if the process has ended
#   said PATTERN FILE PID         succeeds if the file has a line that matches, or if the process has ended; for wait_for
# shellcheck shell=bash

wait_for() {
	local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
	shift
	until "$@"; do
		[ "${EPOCHREALTIME/./}" -lt "$end" ] || return 1
		sleep 0.05
	done
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

said() {
	grep -qs -- "$1" "$2" || ended "$3"
}
