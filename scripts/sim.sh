#!/bin/bash
# ./dev sim [--seeds N] [--from S] | --replay S: simulated histories of client and donors; tests/sim/history.h
# explains them. Runs one history on each processor at a time. If a history goes wrong, prints the first such seed, and
# exits with status 1.
set -uo pipefail
. scripts/packages.sh
. scripts/tree.sh

usage() {
	echo "./dev sim: takes --seeds N, --from S and --replay S, numbers from 1 on: not $*" >&2
	exit 2
}

seeds=1000 from=1 replay=
while [ $# -gt 0 ]; do
	[[ ${2-} =~ ^[1-9][0-9]{0,17}$ ]] || usage "$*"
	case $1 in
	--seeds) seeds=$2 ;;
	--from) from=$2 ;;
	--replay) replay=$2 ;;
	*) usage "$*" ;;
	esac
	shift 2
done

packages_need build || exit 1
tree_setup build gcc || exit 1
if ! ninja -C build tests/sim/sim </dev/null >build/sim.log 2>&1; then
	cat build/sim.log >&2
	exit 1
fi
[ -z "$replay" ] || exec build/tests/sim/sim --replay "$replay"

# The seeds are run in parts. So the first failing seed is known soon, and no later seed is reported in its place.
part=500 last=$((from + seeds))
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
simulate() {
	local first=$1 count=$2 results=$3
	if build/tests/sim/sim --seeds "$count" --from "$first" >"$results/$first" 2>&1; then
		echo "$count"
		rm "$results/$first"
	else
		grep -e '^# seed' -e '^not ok' "$results/$first"
		return 255 # xargs starts no more
	fi
}
export -f simulate
# Each part reports how many histories passed, or the failure. A progress line appears at most every 10 s.
tell() {
	local line total=0 next=10
	while read -r line; do
		if [[ $line != [0-9]* ]]; then
			echo "$line"
			continue
		fi
		((total += line))
		if ((SECONDS >= next)); then
			echo "$total of $seeds histories are fine, $((total / SECONDS)) a second"
			next=$((SECONDS + 10))
		fi
	done
}
SECONDS=0
for ((first = from; first < last; first += part)); do
	echo "$first $((last - first < part ? last - first : part)) $results"
done | xargs -P "$(nproc)" -L 1 bash -c 'simulate "$@"' simulate 2>/dev/null | tell
status=${PIPESTATUS[1]}
if [ "$status" -ne 0 ]; then
	echo "./dev sim: a history goes wrong: ./dev sim --replay SEED tells all of it"
	exit 1
fi
echo "$seeds histories, from seed $from on, in $SECONDS s: nothing is wrong"
