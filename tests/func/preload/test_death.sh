#!/bin/bash
# A donor dies while a job uses its memory. The job dies of SIGBUS, and one line names the donor. The job neither hangs
# nor reads wrong data.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
donors_start 2 256M --slab 8M
mkfifo "$FOLDER/go"

"$FARPAGE" run --local 16M "${DONORS[@]}" --timeout-ms 3000 --quiet -- "$victim" "$FOLDER/go" \
	>"$FOLDER/out" 2>"$FOLDER/err" &
pid=$!
wait_for 60 said ready "$FOLDER/out" $pid
donor_kill 0
started=$(date +%s%N)
echo go >"$FOLDER/go"
wait $pid
status=$?
elapsed=$((($(date +%s%N) - started) / 1000000))
expect "a job that reads a page of a dead donor dies of SIGBUS" $((128 + 7)) $status
expect "one line says that a donor is gone" 1 "$(grep -c 'is gone' "$FOLDER/err")"
note "$(cat "$FOLDER/err")"
matches "the line about the dead donor has its address" "donor ${DONOR_URIS[0]} is gone" "$(cat "$FOLDER/err")"
check "the job dies within 5 s, for a timeout of 3 s" [ $elapsed -lt 5000 ]
note "after $elapsed ms"
expect "the job reads no wrong page before it dies" "" "$(grep wrong "$FOLDER/out")"
check "the other donor still runs" kill -0 "${DONOR_PIDS[1]}"
tap_done
