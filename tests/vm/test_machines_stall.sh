# The donor machine stalls: for half a second, which nobody is to notice, and for eight, which costs time only.
# shellcheck shell=bash disable=SC2153,SC2154

AWAY='does not answer'
# What counts as half a second: no longer than this from the order to stop it until it runs again. An emulating host may
# take its time over it; then it was another stall than was asked for, and it says nothing.
SHORT_US=600000

# stall SECONDS: the machine is stopped for at least so long; STALLED: at most for so many microseconds.
stall() {
	local begin stopped
	order stop donor
	begin=$BEFORE stopped=$AFTER
	pause "$1"
	order continue donor
	STALLED=$((AFTER - begin))
	note "stalled for $(ms $((BEFORE - stopped))) to $(ms $STALLED)"
}

stall_jobs() {
	job idle 0 -- "$FARPAGE_PAGES" 16 wait check
	job_wait idle filled 30
	job busy 0 -- "$FARPAGE_PAGES" 16 "$@"
	job_wait busy filled 30
}

both_again() {
	job_told busy "answers again" && job_told idle "answers again"
}

part_stall_short() {
	local name round counted=0
	stall_jobs busy=8 check
	for ((round = 0; round < 8 && counted < 3; round++)); do
		pause 0.4
		stall 0.5
		[ $STALLED -gt $SHORT_US ] && {
			pause 2
			continue
		}
		counted=$((counted + 1))
		pause 0.5
		for name in busy idle; do
			expect "a stall of half a second is not noticed, client $name" "" "$(cat /run/$name.err)"
		done
	done
	expect "the machine was stalled for half a second, three times" 3 $counted
	job_go idle
	for name in busy idle; do
		job_fine $name 30 "stalls of half a second, client $name: every byte is right"
	done
}

part_stall_long() {
	local name
	stall_jobs busy=5 check
	stall 8
	wait_for 8 both_again
	job_go idle
	for name in busy idle; do
		job_fine $name 30 "a stall of eight seconds, client $name: every byte is right"
		expect "it was told of, and of its end, client $name" "1 1" \
			"$(job_lines $name "$AWAY") $(job_lines $name "answers again")"
		note "$(cat /run/$name.err)"
	done
}

part_stall() {
	part_stall_short
	part_stall_long
}
