#!/bin/bash
# soak.sh BUILD MINUTES: checks and rewrites whole pages under farpage run for that long, in rounds of 20 seconds.
# Rounds differ in the number of writers (one, four), the budget, the number of donors (one, two), encryption, and
# the load of the machine. BUILD is a tree with -Dtrace=true, in which the pager also compares each page's hash.
# Prints TAP, one test a round.
build=$(readlink -f "$1") minutes=$2
cd "$(dirname "$(readlink -f "$0")")/../../.." || exit
export FARPAGE=$build/cli/farpage FARPAGE_MEMSERVER=$build/memserver/farpage-memserver
export FARPAGE_PRELOAD_LIBRARY=$build/pager/preload/libfarpage-preload.so
. tests/lib/tap.sh
until=$(($(date +%s) + minutes * 60))
busy=()
output=$(mktemp)
trap '[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}"; rm -f "$output"' EXIT

load_begin() {
	local i
	for ((i = 0; i < 2 * $(nproc); i++)); do
		while :; do :; done &
		busy+=($!)
	done
}

load_end() {
	[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}"
	wait "${busy[@]}" 2>/dev/null
	busy=()
}

# round MODE LOAD
round() {
	[ "$2" = idle ] || load_begin
	tests/func/preload/run_victim.sh "$1" "$build/tests/func/preload/victim_generations" >"$output" 2>&1
	local status=$?
	[ "$2" = idle ] || load_end
	if ok $status "pages stay right: $THREADS writers, $SIZE_MB MiB with $LOCAL here, $DONOR_COUNT donors, $1, $2"; then
		grep -e "looked at" -e "not counted" "$output"
	else
		note "$(cat "$output")"
	fi
}

export THREADS LOCAL SIZE_MB DONOR_COUNT VICTIM_SECONDS=20
while [ "$(date +%s)" -lt "$until" ]; do
	for THREADS in 1 4; do
		for LOCAL in 10M 64M; do
			for DONOR_COUNT in 1 2; do
				for load in idle loaded; do
					SIZE_MB=$((${LOCAL%M} * 4))
					round far $load
					[ "$(date +%s)" -lt "$until" ] || break 4
				done
			done
			round sealed idle
		done
	done
done
tap_done
