#!/bin/bash
# One of two donors of a job dies. Then both donors of another job die. With --backup each job reads its pages from the
# local disk. A job without donors also writes them there. No backup file is left on the disk afterwards.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
victim=$(realpath "$1")
donors_start 2 256M --slab 8M
directory=$DONORS_DIRECTORY
mkfifo "$directory/go"
exec 3<>"$directory/go" # open for reading, too: otherwise a write would block once the job has ended
mkdir "$directory/disk"

"$FARPAGE" run --local 11M --backup "$directory/disk/backup" "${DONORS[@]}" -- true 2>"$directory/err"
expect "run refuses --backup with a budget that has no room for it" 125 $?
matches "the refusal of a small budget names the least for --backup" "with --backup is 12M" "$(cat "$directory/err")"
"$FARPAGE" run --local 32M --backup "$directory/none/backup" "${DONORS[@]}" -- "$victim" "$directory/go" \
	>/dev/null 2>"$directory/err"
matches "an error line names a backup folder that does not exist" \
	"cannot make the backup $directory/none/backup: No such file" \
	"$(cat "$directory/err")"
# refused WHAT TEXT OPTION...: checks that farpage run refuses the options. Its command would leave a file behind.
refused() {
	local what=$1 text=$2
	shift 2
	"$FARPAGE" run --local 32M "$@" -- touch "$directory/begun" 2>"$directory/err"
	expect "$what is refused with status 125" 125 $?
	matches "$what is refused with its cause" "^farpage: $text" "$(cat "$directory/err")"
	expect "$what is refused in one line" 1 "$(wc -l <"$directory/err")"
	[ ! -e "$directory/begun" ]
	ok $? "$what is refused before the command starts"
}
refused "a backup path that is a folder" "the backup $directory is neither" --backup "$directory" "${DONORS[@]}"
refused "a backup in a missing folder" "cannot make the backup" --backup "$directory/none/backup" "${DONORS[@]}"
refused "a donor named twice" "donor .* is named twice" "${DONORS[@]}" "${DONORS[@]}"
refused "a --stats file that cannot be written" "cannot write --stats" --stats "$directory/none/stats" "${DONORS[@]}"

# job_bereaved WHAT PID...: checks that a job ends well although the donors with these process ids are killed. They are
# killed once all far pages are on the backup.
job_bereaved() {
	local what=$1 pid
	shift
	: >"$directory/out" # empties the output of the job before
	(cd "$directory/disk" && exec "$FARPAGE" run --local 12M --backup backup "${DONORS[@]}" --timeout-ms 3000 --quiet \
		--stats "$directory/stats" -- "$victim" "$directory/go") >"$directory/out" 2>"$directory/err" &
	pid=$!
	until grep -q ready "$directory/out" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
	kill -KILL "$@"
	echo go >&3
	wait $pid
	expect "$what: the job exits with status 0" 0 $?
	note "$(cat "$directory/err")"
	expect "$what: the job reads every page as it was written" "0 pages are wrong" "$(grep wrong "$directory/out")"
	expect "$what: no page is lost" 0 "$(stat_of "$directory/stats" lost_pages)"
	[ "$(stat_of "$directory/stats" backup_reads)" -gt 0 ]
	ok $? "$what: the job reads pages from the backup"
	expect "$what: no file is left in the folder of the backup" "" "$(ls "$directory/disk")"
}

job_bereaved "a donor is killed" "${DONOR_PIDS[0]}"
donors_stop
donors_start 2 256M --slab 8M
job_bereaved "all donors are killed" "${DONOR_PIDS[@]}"
[ "$(stat_of "$directory/stats" backup_writes)" -gt 0 ]
ok $? "all donors are killed: the job writes its pages to the backup"
matches "all donors are killed: a line says that pages go to the backup alone" \
	"written to the backup .* alone" "$(cat "$directory/err")"
tap_done
