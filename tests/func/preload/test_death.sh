#!/bin/bash
# A donor dies while a job uses its memory. The job dies of SIGBUS, and one line names the donor. The job neither hangs
# nor reads wrong data.
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
expect "a job that reads a page of a dead donor dies of SIGBUS" $((128 + 7)) $status
expect "one line says that a donor is gone" 1 "$(grep -c 'is gone' "$directory/err")"
note "$(cat "$directory/err")"
matches "the line about the dead donor has its address" "donor ${DONOR_URIS[0]} is gone" "$(cat "$directory/err")"
[ $elapsed -lt 5000 ]
ok $? "the job dies within 5 s, for a timeout of 3 s"
note "after $elapsed ms"
expect "the job reads no wrong page before it dies" "" "$(grep wrong "$directory/out")"
kill -0 "${DONOR_PIDS[1]}"
ok $? "the other donor still runs"
tap_done
