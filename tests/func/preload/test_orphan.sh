#!/bin/bash
# A forked child whose parent, and the pager in it, is gone: it lives while it needs nothing far, and never reads zeroes.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
victim=$1
donors_start 2 512M --slab 8M
directory=$DONORS_DIRECTORY
export SIZE_MB=48

# The pipe that takes the output is open until the child has ended, too.
orphan() {
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$directory/err" | cat
}
for round in 1 2 3; do
	expect "round $round: a child that needs nothing far lives on" alive "$(orphan plain)"
	expect "round $round: and nothing is said about it" "" "$(cat "$directory/err")"
	expect "round $round: one that does is stopped" "" "$(orphan far)"
	matches "round $round: with one line that says why" "could have brought it, has ended: it is stopped" "$(cat "$directory/err")"
	expect "round $round: one that has closed all it did not open lives on, too" alive "$(orphan plain closed)"
	expect "round $round: or is stopped" "" "$(orphan far closed)"
	matches "round $round: with the same line" "could have brought it, has ended: it is stopped" "$(cat "$directory/err")"
done
tap_done
