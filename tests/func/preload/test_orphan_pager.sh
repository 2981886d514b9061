#!/bin/bash
# The parent of a forked child ends, and with it the pager. If no page is far, the child gets a pager of its own.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
donors_start 2 512M --slab 8M
export SIZE_MB=48

# Waits for the child, too, because the child holds the pipe to cat open.
orphan() {
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$FOLDER/err" | cat
}
# Daemons fork before they use much memory. Rounds differ in whether the second fork meets the end of the pager.
for round in 1 2 3; do
	for words in "" "twice" "twice closed"; do
		name="an orphan without far pages${words:+ ($words)}"
		expect "round $round: $name can use far memory, and its child, too" grown "$(orphan early $words)"
		expect "round $round: farpage prints nothing about $name" "" "$(cat "$FOLDER/err")"
	done
done
expect "an orphan that has given up root's rights lives on with local memory" grown "$(orphan early drops)"
matches "a line says that this orphan's memory stays local" "its memory stays on this machine" "$(cat "$FOLDER/err")"
tap_done
