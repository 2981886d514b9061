#!/bin/bash
# run_victim.sh MODE VICTIM: runs a program that checks itself (victim.h) and prints its TAP, with some of ours.
#   plain    without farpage: what the victim asks for is what Linux does
#   waiting  with its memory in the window, and no pager yet
#   far      under farpage run, with a quarter of its memory here and the rest on two donors
#   sealed   the same, encrypted
# Of the environment: SIZE_MB (64) is the memory of the victim, LOCAL (16M) what it may have here, DONOR_COUNT (2).
here=$(dirname "$0")
. "$here/tap.sh"
mode=$1 victim=$2
export SIZE_MB=${SIZE_MB:-64}
local=${LOCAL:-16M}
case $mode in
plain)
	exec "$victim"
	;;
waiting)
	export FARPAGE_LOCAL=64M FARPAGE_DONORS=tcp://127.0.0.1:1 FARPAGE_START_BYTES=1T
	LD_PRELOAD=$FARPAGE_PRELOAD_LIBRARY exec "$victim"
	;;
esac

require_userfaultfd
. "$here/../donors.sh"
donors_start "${DONOR_COUNT:-2}" 512M --slab 8M
stats=$DONORS_DIRECTORY/stats
export CHILD_MB=4
options=()
[ "$mode" = far ] || options=(--encrypt)
"$FARPAGE" run --local "$local" "${options[@]}" "${DONORS[@]}" --stats "$stats" --quiet -- "$victim" >"$DONORS_DIRECTORY/tap"
status=$?
grep -v '^1\.\.' "$DONORS_DIRECTORY/tap"
TAP_COUNT=$(grep -Ec '^(not )?ok ' "$DONORS_DIRECTORY/tap")
grep -q '^1\.\.' "$DONORS_DIRECTORY/tap"
ok $? "the victim came to its end"
expect "and found nothing wrong" 0 $status
[ "$(stat_of "$stats" processes)" -ge 1 ] && [ "$(stat_of "$stats" fetched_pages)" -gt 1000 ]
ok $? "its memory was far"
[ "$(stat_of "$stats" resident_peak_bytes)" -le $((${local%M} << 20)) ]
ok $? "and kept to its budget"
dropped=$(stat_of "$stats" dropped_pages)
[ "$(basename "$victim")" = victim_dropped ] && [ "$dropped" -gt 0 ] || [ "$dropped" -eq 0 ]
ok $? "pages are counted as dropped where the victim drops them ($dropped)"
note "resident peak $(stat_of "$stats" resident_peak_bytes), fetched $(stat_of "$stats" fetched_pages) pages"
expect "no page was lost" 0 "$(stat_of "$stats" lost_pages)"
for pid in "${DONOR_PIDS[@]}"; do
	kill -0 "$pid" 2>/dev/null
	ok $? "donor $pid lives"
done
tap_done
