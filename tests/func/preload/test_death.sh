#!/bin/bash
# A donor that dies under a job: the job gets SIGBUS, one line names the donor, and nobody hangs or reads wrong data.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
victim=$1
donors_start 2 256M --slab 8M
directory=$DONORS_DIRECTORY
mkfifo "$directory/go"

"$FARPAGE" run --local 16M "${DONORS[@]}" --timeout-ms 3000 --quiet -- "$victim" "$directory/go" \
	>"$directory/out" 2>"$directory/err" &
pid=$!
until grep -q ready "$directory/out" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -KILL "${DONOR_PIDS[0]}"
started=$(date +%s%N)
echo go >"$directory/go"
wait $pid
status=$?
elapsed=$((($(date +%s%N) - started) / 1000000))
expect "the job dies of SIGBUS" $((128 + 7)) $status
expect "one line says that the donor is gone" 1 "$(grep -c 'is gone' "$directory/err")"
note "$(cat "$directory/err")"
matches "which names the donor" "donor ${DONOR_URIS[0]} is gone" "$(cat "$directory/err")"
[ $elapsed -lt 5000 ]
ok $? "within the timeout"
note "after $elapsed ms"
expect "no wrong data was read" "" "$(grep wrong "$directory/out")"
kill -0 "${DONOR_PIDS[1]}"
ok $? "the other donor lives"
tap_done
