#!/bin/bash
# A program checks its memory without pause while its only donor is upgraded five times. No page is lost.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
export SIZE_MB=64 THREADS=2 VICTIM_SECONDS=12
stats=$FOLDER/stats

# An upgrade keeps the port, so the port must be fixed: it is the one of a donor that has ended.
donors_start 1 512M --slab 8M
kill "${DONOR_PIDS[0]}"
wait "${DONOR_PIDS[0]}"
donor_again 0
pid=${DONOR_PIDS[0]}

upgrades() {
	grep -c 'took over [1-9]' "$FOLDER/donor.0.err"
}

has_upgraded() {
	[ "$(upgrades)" -eq "$1" ]
}

"$FARPAGE" run --local 12M "${DONORS[@]}" --stats "$stats" --quiet -- "$victim" >"$FOLDER/tap" &
job=$!
check "the program has far memory" wait_for 20 grep -q 'leases slab 3;' "$FOLDER/donor.0.err"
for round in 1 2 3 4 5; do
	kill -USR2 "$pid"
	check "upgrade $round takes over the program's slabs" wait_for 20 has_upgraded "$round"
	sleep 1
done
wait $job
expect "the program finds no wrong byte, and exits with status 0" 0 $?
grep -v '^1\.\.' "$FOLDER/tap" | sed 's/^/# /'
expect "no page is lost" 0 "$(stat_of "$stats" lost_pages)"
[ "$(stat_of "$stats" fetched_pages)" -gt 1000 ]
ok $? "the program fetched more than 1000 pages"
check "the process of the donor is the same" kill -0 "$pid"
tap_done
