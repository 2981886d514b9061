#!/bin/bash
# run_victim.sh MODE VICTIM: runs a program that checks itself (victim.h). Prints the program's TAP, then its own.
#   plain    without farpage: shows that Linux itself does what the program expects
#   waiting  with the program's memory in the pager window, but no pager yet
#   far      under farpage run: a quarter of the program's memory is resident, the rest is on two donors
#   sealed   as far, with encrypted pages
# Environment, with defaults: SIZE_MB (64), the program's memory; LOCAL (16M), its budget; DONOR_COUNT (2).
. tests/lib/tap.sh
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
. tests/lib/donor.sh
donors_start "${DONOR_COUNT:-2}" 512M --slab 8M
stats=$FOLDER/stats
export CHILD_MB=4
options=()
[ "$mode" = far ] || options=(--encrypt)
"$FARPAGE" run --local "$local" "${options[@]}" "${DONORS[@]}" --stats "$stats" --quiet -- "$victim" >"$FOLDER/tap" 2>"$FOLDER/err"
status=$?
cat "$FOLDER/err" >&2
grep -v '^1\.\.' "$FOLDER/tap"
TAP_COUNT=$(grep -Ec '^(not )?ok ' "$FOLDER/tap")
check "the program prints its TAP plan at its end" grep -q '^1\.\.' "$FOLDER/tap"
expect "the program exits with status 0" 0 $status
[ "$(stat_of "$stats" processes)" -ge 1 ] && [ "$(stat_of "$stats" fetched_pages)" -gt 1000 ]
ok $? "the program fetches more than 1000 pages from donors"
check "the program's resident memory stays within --local" \
	[ "$(stat_of "$stats" resident_peak_bytes)" -le $((${local%M} << 20)) ]
dropped=$(stat_of "$stats" dropped_pages)
[ "$(basename "$victim")" = victim_dropped ] && [ "$dropped" -gt 0 ] || [ "$dropped" -eq 0 ]
ok $? "dropped_pages counts pages only for a program that drops some ($dropped)"
expect "one line reports dropped pages" $((dropped > 0)) "$(grep -c "drops memory by system calls" "$FOLDER/err")"
if [ "$(basename "$victim")" = victim_readers ]; then
	[ "$(stat_of "$stats" faults_far)" -gt 100000 ]
	ok $? "the statistics count the faults of forked children"
fi
note "resident peak $(stat_of "$stats" resident_peak_bytes), fetched $(stat_of "$stats" fetched_pages) pages"
expect "no page is lost" 0 "$(stat_of "$stats" lost_pages)"
tap_done
