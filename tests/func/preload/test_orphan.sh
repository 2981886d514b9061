#!/bin/bash
# test_orphan.sh VICTIM PART: the parent of a forked child ends, and with it the pager. If no page is far, the child gets a
# pager of its own. If the parent exits, it first brings the child's far pages back. If the parent is killed, the child lives
# on until it needs a far page. It never reads zeroes in place of far memory.
# Each part is a test of its own, so that it ends well within its time on a slow machine.
. tests/lib/donor.sh
require_userfaultfd
victim=$1 part=$2
donors_start 2 512M --slab 8M
export SIZE_MB=48

# Waits for the child, too, because the child holds the pipe to cat open.
orphan() {
	"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$FOLDER/err" | cat
}

lives_or_stops() {
	local round
	for round in 1 2 3; do
		expect "round $round: an orphan that needs no far page lives on" alive "$(orphan plain killed)"
		expect "round $round: farpage prints nothing about an orphan that needs no far page" \
			"" "$(cat "$FOLDER/err")"
		expect "round $round: an orphan that reads far memory is stopped" "" "$(orphan far killed)"
		matches "round $round: a line says why the orphan is stopped" \
			"could have brought it, has ended: it is stopped" "$(cat "$FOLDER/err")"
		expect "round $round: an orphan that closed all other descriptors lives on" \
			alive "$(orphan plain closed killed)"
		expect "round $round: an orphan without other descriptors is stopped when it reads far memory" \
			"" "$(orphan far closed killed)"
		matches "round $round: a line says why the orphan without other descriptors is stopped" \
			"could have brought it, has ended: it is stopped" "$(cat "$FOLDER/err")"
	done
}

# Daemons fork before they use much memory. Rounds differ in whether the second fork meets the end of the pager.
grows() {
	local round name="an orphan without far pages${*:+ ($*)}"
	for round in {1..5}; do
		expect "round $round: $name can use far memory, and its child, too" grown "$(orphan early "$@")"
		expect "round $round: farpage prints nothing about $name" "" "$(cat "$FOLDER/err")"
	done
}

loses_rights() {
	expect "an orphan that has given up root's rights lives on with local memory" grown "$(orphan early drops)"
	matches "a line says that this orphan's memory stays local" "its memory stays on this machine" "$(cat "$FOLDER/err")"
}

# The far pages of a daemon come back before its parent exits.
keeps_pages() {
	local round way name="an orphan with far pages${*:+ ($*)}"
	for round in 1 2 3; do
		for way in "" _exit daemon; do
			expect "round $round: $name lives on in its budget if its parent exits${way:+ by $way()}" \
				grown "$(orphan late $way "$@")"
			matches "round $round: a line says how much far memory of $name comes back${way:+ ($way)}" \
				"their far memory, [0-9.]+M, comes back to this machine" "$(cat "$FOLDER/err")"
		done
	done
}

# Its parent waits for some seconds, because the child does not answer.
is_stopped() {
	expect "an orphan that was stopped while its parent exited lives on" grown "$(orphan late asleep)"
}

# A daemon forks twice. The second fork meets the end of the pager in 1 round of 3; then the child of the child is stopped
# in any case.
forks_twice() {
	local round name="the child of a child${*:+ without other descriptors}"
	for round in {1..10}; do
		expect "round $round: $name is stopped when it reads far memory" "" "$(orphan far twice killed "$@")"
		matches "round $round: a line says why $name is stopped" "has ended: it is stopped" "$(cat "$FOLDER/err")"
	done
}

may_live() {
	local round
	for round in {1..10}; do
		matches "round $round: the child of a child that needs no far page lives on, or a line says why it is stopped" \
			"^alive$|has ended: it is stopped" "$(orphan plain twice killed; cat "$FOLDER/err")"
	done
}

case $part in
stopped) lives_or_stops ;;
stopped_twice)
	forks_twice
	may_live
	;;
stopped_closed) forks_twice closed ;;
pager)
	grows
	loses_rights
	;;
pager_twice) grows twice ;;
pager_closed) grows twice closed ;;
farewell)
	keeps_pages
	is_stopped
	;;
farewell_twice) keeps_pages twice ;;
farewell_closed) keeps_pages twice closed ;;
*) ok 1 "there is a part $part" ;;
esac
tap_done
