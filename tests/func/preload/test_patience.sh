#!/bin/bash
# A job and its only donor, of which one stands still for a while: the job goes on with all that it had. A job that waits
# for its donor ends when it is told to.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
set -m # each job has a process group, as from a shell, and hears SIGINT
victim=$1
# What a job that is killed has told its donor to keep stays there: room for all of them.
donors_start 1 512M --slab 8M --heartbeat 50
directory=$DONORS_DIRECTORY
mkfifo "$directory/go"

job_start() {
	: >"$directory/out" # what the one before said must not be taken for this one's
	: >"$directory/err"
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet "$@" -- "$victim" "$directory/go" >"$directory/out" 2>"$directory/err" &
	pid=$!
	until grep -q ready "$directory/out"; do
		kill -0 $pid 2>/dev/null || { echo "Bail out! the job does not start: $(cat "$directory/err")"; exit 1; }
		sleep 0.02
	done
}

# Until the log of the job, or else the donor's, has the line.
await_line() {
	until grep -q "$1" "$directory/$2"; do
		kill -0 $pid 2>/dev/null || return 1
		sleep 0.02
	done
}

job_end_well() {
	local name=$1
	wait $pid
	expect "$name: the job ends well" 0 $?
	expect "$name: all of its memory was there" "all of it was there" "$(tail -n 1 "$directory/out")"
	note "$(cat "$directory/err")"
}

job_start
kill -STOP -- -$pid
await_line "vanished; its .* slabs are kept for 601 s" donor.0.err
ok $? "job stopped: its donor keeps its slabs"
kill -CONT -- -$pid
echo go >"$directory/go"
job_end_well "job stopped"

job_start
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$directory/go"
await_line "does not answer .*: trying to reach it again for 600 s" err
ok $? "donor stopped: a line says that the job waits for it"
kill -CONT "${DONOR_PIDS[0]}"
job_end_well "donor stopped"

job_start --verbose
kill -STOP "${DONOR_PIDS[0]}"
echo go >"$directory/go"
await_line "does not answer" err
ok $? "--verbose: a silence is told"
expect "--verbose: it is told before there is something to wait for" 0 "$(grep -c "trying to reach" "$directory/err")"
kill -CONT "${DONOR_PIDS[0]}"
await_line "answers again" err
ok $? "--verbose: so is its end"
job_end_well "--verbose"

for signal in TERM INT; do
	job_start
	kill -STOP "${DONOR_PIDS[0]}"
	echo go >"$directory/go"
	await_line "does not answer" err
	kill -$signal -- -$pid
	wait $pid 2>/dev/null
	status=$?
	expect "SIG$signal: a job that waits for its donor dies of it" $((128 + $(kill -l $signal))) $status
	kill -CONT "${DONOR_PIDS[0]}"
done
tap_done
