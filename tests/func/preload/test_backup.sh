#!/bin/bash
# One of two donors of a job dies. Then both donors of another job die. With --backup each job reads its pages from the
# local disk. A job without donors also writes them there. No backup file is left on the disk afterwards.
. tests/lib/donor.sh
require_userfaultfd
victim=$(realpath "$1")
donors_start 2 256M --slab 8M
mkfifo "$FOLDER/go"
exec 3<>"$FOLDER/go" # open for reading, too: otherwise a write would block once the job has ended
mkdir "$FOLDER/disk"

"$FARPAGE" run --local 11M --backup "$FOLDER/disk/backup" "${DONORS[@]}" -- true 2>"$FOLDER/err"
expect "run refuses --backup with a budget that has no room for it" 125 $?
matches "the refusal of a small budget names the least for --backup" "with --backup is 12M" "$(cat "$FOLDER/err")"
"$FARPAGE" run --local 32M --backup "$FOLDER/none/backup" "${DONORS[@]}" -- "$victim" "$FOLDER/go" \
	>/dev/null 2>"$FOLDER/err"
matches "an error line names a backup folder that does not exist" \
	"cannot make the backup $FOLDER/none/backup: No such file" \
	"$(cat "$FOLDER/err")"
# run_refused WHAT TEXT OPTION...: checks that farpage run refuses the options. Its command would leave a file behind.
run_refused() {
	refused "$1" 125 "^farpage: $2" "$FARPAGE" run --local 32M "${@:3}" -- touch "$FOLDER/begun"
	check "$1 is refused before the command starts" [ ! -e "$FOLDER/begun" ]
}
run_refused "a backup path that is a folder" "the backup $FOLDER is neither" --backup "$FOLDER" "${DONORS[@]}"
run_refused "a backup in a missing folder" "cannot make the backup" --backup "$FOLDER/none/backup" "${DONORS[@]}"
run_refused "a donor named twice" "donor .* is named twice" "${DONORS[@]}" "${DONORS[@]}"
run_refused "a --stats file that cannot be written" "cannot write --stats" --stats "$FOLDER/none/stats" "${DONORS[@]}"

# job_bereaved WHAT DONOR...: checks that a job ends well although these donors are killed. They are killed once all far
# pages are on the backup.
job_bereaved() {
	local what=$1 pid donor
	shift
	: >"$FOLDER/out" # empties the output of the job before
	(cd "$FOLDER/disk" && exec "$FARPAGE" run --local 12M --backup backup "${DONORS[@]}" --timeout-ms 3000 --quiet \
		--stats "$FOLDER/stats" -- "$victim" "$FOLDER/go") >"$FOLDER/out" 2>"$FOLDER/err" &
	pid=$!
	wait_for 60 said ready "$FOLDER/out" $pid
	for donor; do
		donor_kill "$donor"
	done
	echo go >&3
	wait $pid
	expect "$what: the job exits with status 0" 0 $?
	note "$(cat "$FOLDER/err")"
	expect "$what: the job reads every page as it was written" "0 pages are wrong" "$(grep wrong "$FOLDER/out")"
	expect "$what: no page is lost" 0 "$(stat_of "$FOLDER/stats" lost_pages)"
	check "$what: the job reads pages from the backup" [ "$(stat_of "$FOLDER/stats" backup_reads)" -gt 0 ]
	expect "$what: no file is left in the folder of the backup" "" "$(ls "$FOLDER/disk")"
}

job_bereaved "a donor is killed" 0
donors_end
donors_start 2 256M --slab 8M
job_bereaved "all donors are killed" 0 1
check "all donors are killed: the job writes its pages to the backup" [ "$(stat_of "$FOLDER/stats" backup_writes)" -gt 0 ]
matches "all donors are killed: a line says that pages go to the backup alone" \
	"written to the backup .* alone" "$(cat "$FOLDER/err")"
tap_done
