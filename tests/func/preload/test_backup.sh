#!/bin/bash
# The only donor of half of a job's pages dies, then all donors of another one: with a backup they read their pages from
# the local disk, write them there, and nothing is left of that.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
victim=$(realpath "$1")
donors_start 2 256M --slab 8M
directory=$DONORS_DIRECTORY
mkfifo "$directory/go"
exec 3<>"$directory/go" # or writing to it would wait for a job that has ended
mkdir "$directory/disk"

"$FARPAGE" run --local 11M --backup "$directory/disk/backup" "${DONORS[@]}" -- true 2>"$directory/err"
expect "a budget that has no room for it is refused" 125 $?
matches "in one line" "with --backup is 12M" "$(cat "$directory/err")"
"$FARPAGE" run --local 32M --backup "$directory/none/backup" "${DONORS[@]}" -- "$victim" "$directory/go" \
	>/dev/null 2>"$directory/err"
matches "a folder that is not there is named" "cannot make the backup $directory/none/backup: No such file" \
	"$(cat "$directory/err")"
# refused WHAT TEXT OPTION...: a command that would leave something behind is not even begun.
refused() {
	local what=$1 text=$2
	shift 2
	"$FARPAGE" run --local 32M "$@" -- touch "$directory/begun" 2>"$directory/err"
	expect "$what is refused" 125 $?
	matches "in one line" "^farpage: $text" "$(cat "$directory/err")"
	expect "and no more" 1 "$(wc -l <"$directory/err")"
	[ ! -e "$directory/begun" ]
	ok $? "before the command begins"
}
refused "a folder" "the backup $directory is neither" --backup "$directory" "${DONORS[@]}"
refused "a missing folder" "cannot make the backup" --backup "$directory/none/backup" "${DONORS[@]}"
refused "a donor that is named twice" "donor .* is named twice" "${DONORS[@]}" "${DONORS[@]}"
refused "statistics that cannot be written" "cannot write --stats" --stats "$directory/none/stats" "${DONORS[@]}"

# job_bereaved WHAT PID...: a job, whose donors of these ids are killed when its pages are on the backup, ends well all the same.
job_bereaved() {
	local what=$1 pid
	shift
	: >"$directory/out" # of the job before
	(cd "$directory/disk" && exec "$FARPAGE" run --local 12M --backup backup "${DONORS[@]}" --timeout-ms 3000 --quiet \
		--stats "$directory/stats" -- "$victim" "$directory/go") >"$directory/out" 2>"$directory/err" &
	pid=$!
	until grep -q ready "$directory/out" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
	kill -KILL "$@"
	echo go >&3
	wait $pid
	expect "$what: the job ends well" 0 $?
	note "$(cat "$directory/err")"
	expect "and found every byte" "0 pages are wrong" "$(grep wrong "$directory/out")"
	expect "no page was lost" 0 "$(stat_of "$directory/stats" lost_pages)"
	[ "$(stat_of "$directory/stats" backup_reads)" -gt 0 ]
	ok $? "they came from the backup"
	expect "of which nothing is left" "" "$(ls "$directory/disk")"
}

job_bereaved "a donor is killed" "${DONOR_PIDS[0]}"
donors_stop
donors_start 2 256M --slab 8M
job_bereaved "all donors are killed" "${DONOR_PIDS[@]}"
[ "$(stat_of "$directory/stats" backup_writes)" -gt 0 ]
ok $? "where it has written its pages from then on"
matches "which is told" "written to the backup .* alone" "$(cat "$directory/err")"
tap_done
