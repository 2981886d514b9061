#!/bin/bash
# A job, or its only donor, is stopped for a while. Afterwards the job continues with all of its memory. A signal ends a
# job that waits for its donor.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
# The donor keeps the slabs of killed jobs, so it needs room for all jobs.
donors_start 1 512M --slab 8M --heartbeat 50
mkfifo "$FOLDER/go"

# set -m: the job has its own process group, as in an interactive shell, and does not ignore SIGINT. It is set no longer
# than that: with it, `wait` also returns when a process has been stopped.
job_start() {
	: >"$FOLDER/out" # empties the output of the job before
	: >"$FOLDER/err"
	set -m
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet "$@" -- "$victim" "$FOLDER/go" >"$FOLDER/out" 2>"$FOLDER/err" &
	set +m
	pid=$!
	await_line ready out || { echo "Bail out! the job does not start: $(cat "$FOLDER/err")"; exit 1; }
}

# await_line PATTERN FILE: waits until FILE, the job's or the donor's log, has the line. Fails if the job ends.
await_line() {
	wait_for 60 said "$1" "$FOLDER/$2" $pid && grep -q "$1" "$FOLDER/$2"
}

job_end_well() {
	local name=$1
	wait $pid
	expect "$name: the job exits with status 0" 0 $?
	expect "$name: the job reads all of its memory as it was written" \
		"all of it was there" "$(tail -n 1 "$FOLDER/out")"
	note "$(cat "$FOLDER/err")"
}

job_start
kill -STOP -- -$pid
check "job stopped: the donor keeps the job's slabs for 601 s" \
	await_line "vanished; its .* slabs are kept for 601 s" donor.0.err
kill -CONT -- -$pid
echo go >"$FOLDER/go"
job_end_well "job stopped"

job_start
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$FOLDER/go"
check "donor stopped: a line says that the job waits for its donor" \
	await_line "does not answer .*: trying to reach it again for 600 s" err
kill -CONT "${DONOR_PIDS[0]}"
job_end_well "donor stopped"

job_start --verbose
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$FOLDER/go"
check "--verbose: a line says that the donor does not answer" await_line "does not answer" err
expect "--verbose: the silence is reported before the job tries to reach its donor again" 0 \
	"$(grep -c "trying to reach" "$FOLDER/err")"
kill -CONT "${DONOR_PIDS[0]}"
check "--verbose: a line says that the donor answers again" await_line "answers again" err
job_end_well "--verbose"

for signal in TERM INT; do
	job_start
	kill -STOP "${DONOR_PIDS[0]}"
	echo go >"$FOLDER/go"
	await_line "does not answer" err
	kill -$signal -- -$pid
	wait $pid 2>/dev/null
	status=$?
	expect "a job that waits for its donor dies of SIG$signal" $((128 + $(kill -l $signal))) $status
	kill -CONT "${DONOR_PIDS[0]}"
done
tap_done
