#!/bin/bash
# The parent of a forked child ends, and with it the pager. If a page of the child is far, the child lives on until it
# needs one. It never reads zeroes in place of far memory.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
donors_start 2 512M --slab 8M
export SIZE_MB=32

# Waits for the child, too, because the child holds the pipe to cat open.
orphan() {
	"$FARPAGE" run --local 12M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$FOLDER/err" | cat
}
for round in 1 2 3; do
	expect "round $round: an orphan that needs no far page lives on" alive "$(orphan plain)"
	expect "round $round: farpage prints nothing about an orphan that needs no far page" \
		"" "$(cat "$FOLDER/err")"
	expect "round $round: an orphan that reads far memory is stopped" "" "$(orphan far)"
	matches "round $round: a line says why the orphan is stopped" \
		"could have brought it, has ended: it is stopped" "$(cat "$FOLDER/err")"
	expect "round $round: an orphan that closed all other descriptors lives on" alive "$(orphan plain closed)"
	expect "round $round: an orphan without other descriptors is stopped when it reads far memory" \
		"" "$(orphan far closed)"
	matches "round $round: a line says why the orphan without other descriptors is stopped" \
		"could have brought it, has ended: it is stopped" "$(cat "$FOLDER/err")"
done

# A daemon forks twice. The second fork meets the end of the pager in 1 round of 3; then the child of the child is stopped
# in any case.
for round in {1..6}; do
	for closed in "" closed; do
		name="the child of a child${closed:+ without other descriptors}"
		expect "round $round: $name is stopped when it reads far memory" "" "$(orphan far twice $closed)"
		matches "round $round: a line says why $name is stopped" "has ended: it is stopped" "$(cat "$FOLDER/err")"
	done
	matches "round $round: the child of a child that needs no far page lives on, or a line says why it is stopped" \
		"^alive$|has ended: it is stopped" "$(orphan plain twice; cat "$FOLDER/err")"
done
tap_done
