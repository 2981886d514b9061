# The donor machine stalls. The clients must not notice half a second. Eight seconds cost them only time.
# shellcheck shell=bash disable=SC2153,SC2154

AWAY='does not answer'
# The longest stall that counts as half a second, from the order to stop the machine until it runs again. A host that
# emulates may take longer. The test does not check such a longer stall.
SHORT_US=600000

# stall SECONDS: stops the machine for at least SECONDS. Sets STALLED to the longest time, in microseconds, for which it
# may have been stopped.
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
			expect "client $name does not notice a stall of half a second" "" "$(cat /run/$name.err)"
		done
	done
	expect "the donor machine stalls for half a second three times" 3 $counted
	job_go idle
	for name in busy idle; do
		job_fine $name 30 "client $name reads every byte right over stalls of half a second"
	done
}

part_stall_long() {
	local name
	stall_jobs busy=5 check
	stall 8
	wait_for 8 both_again
	job_go idle
	for name in busy idle; do
		job_fine $name 30 "client $name reads every byte right over a stall of eight seconds"
		expect "client $name reports a stall of eight seconds in one line, its end in another" "1 1" \
			"$(job_lines $name "$AWAY") $(job_lines $name "answers again")"
		note "$(cat /run/$name.err)"
	done
}

part_stall() {
	part_stall_short
	part_stall_long
}
