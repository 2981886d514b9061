#!/bin/bash
# A job, or its only donor, is stopped for a while. Afterwards the job goes on with all of its memory. A signal ends a
# job that waits for its donor.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
set -m # each job has its own process group, as in an interactive shell, and does not ignore SIGINT
victim=$1
# The donor keeps the slabs of killed jobs, so it needs room for all jobs.
donors_start 1 512M --slab 8M --heartbeat 50
directory=$DONORS_DIRECTORY
mkfifo "$directory/go"

job_start() {
	: >"$directory/out" # empties the output of the job before
	: >"$directory/err"
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet "$@" -- "$victim" "$directory/go" >"$directory/out" 2>"$directory/err" &
	pid=$!
	until grep -q ready "$directory/out"; do
		kill -0 $pid 2>/dev/null || { echo "Bail out! the job does not start: $(cat "$directory/err")"; exit 1; }
		sleep 0.02
	done
}

# await_line PATTERN FILE: waits until FILE, the job's or the donor's log, has the line. Fails if the job ends.
await_line() {
	until grep -q "$1" "$directory/$2"; do
		kill -0 $pid 2>/dev/null || return 1
		sleep 0.02
	done
}

job_end_well() {
	local name=$1
	wait $pid
	expect "$name: the job exits with status 0" 0 $?
	expect "$name: the job reads all of its memory as it was written" \
		"all of it was there" "$(tail -n 1 "$directory/out")"
	note "$(cat "$directory/err")"
}

job_start
kill -STOP -- -$pid
await_line "vanished; its .* slabs are kept for 601 s" donor.0.err
ok $? "job stopped: the donor keeps the job's slabs for 601 s"
kill -CONT -- -$pid
echo go >"$directory/go"
job_end_well "job stopped"

job_start
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$directory/go"
await_line "does not answer .*: trying to reach it again for 600 s" err
ok $? "donor stopped: a line says that the job waits for its donor"
kill -CONT "${DONOR_PIDS[0]}"
job_end_well "donor stopped"

job_start --verbose
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$directory/go"
await_line "does not answer" err
ok $? "--verbose: a line says that the donor does not answer"
expect "--verbose: the silence is reported before the job tries to reach its donor again" 0 \
	"$(grep -c "trying to reach" "$directory/err")"
kill -CONT "${DONOR_PIDS[0]}"
await_line "answers again" err
ok $? "--verbose: a line says that the donor answers again"
job_end_well "--verbose"

for signal in TERM INT; do
	job_start
	kill -STOP "${DONOR_PIDS[0]}"
	echo go >"$directory/go"
	await_line "does not answer" err
	kill -$signal -- -$pid
	wait $pid 2>/dev/null
	status=$?
	expect "a job that waits for its donor dies of SIG$signal" $((128 + $(kill -l $signal))) $status
	kill -CONT "${DONOR_PIDS[0]}"
done
tap_done
