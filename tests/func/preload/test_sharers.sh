#!/bin/bash
# A process that shares the memory of one that has ended, its pager with it: it lives while it needs nothing far. It neither
# hangs nor reads zeroes.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
victim=$1
donors_start 2 512M --slab 8M
directory=$DONORS_DIRECTORY
export SIZE_MB=48
why="shares the memory of process [0-9]+, which was partly far and has ended: it is stopped"

# The pipe that takes the output is open until all processes have ended.
sharer() {
	{
		"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$directory/err"
		echo $? >"$directory/status"
	} | cat
}
for way in vfork clone; do
	expect "$way: a process that needs nothing far lives on" alive "$(sharer $way plain)"
	expect "$way: nothing is said about a process that needs nothing far" "" "$(grep farpage: "$directory/err")"
	expect "$way: the maker's end is the status of farpage run" 137 "$(cat "$directory/status")"
	expect "$way: a process that needs far memory is stopped" "" "$(sharer $way far)"
	matches "$way: one line says why it is stopped" "$why" "$(cat "$directory/err")"
done
expect "the child of such a process is stopped" "" "$(sharer clone fork)"
matches "one line says why the child is stopped" "$why" "$(cat "$directory/err")"
expect "a process whose maker executes another program lives on" alive "$(sharer clone plain exec)"
expect "a process whose maker executes another program is stopped when it needs far memory" "" "$(sharer clone far exec)"
tap_done
