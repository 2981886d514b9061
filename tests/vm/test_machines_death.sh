# The donor machine dies: how soon it is noticed by a busy client and an idle one, and what becomes of their jobs.
# shellcheck shell=bash disable=SC2153,SC2154

AWAY='does not answer'
NOTICE_US=3000000 # a second until it is noticed, two until that is told

# Two jobs that have all they want on the donor: one busy, one that does nothing.
death_jobs() {
	job idle 0 "$@" -- "$FARPAGE_PAGES" 16 wait check
	job_wait idle filled 30
	job busy 0 "$@" -- "$FARPAGE_PAGES" 16 busy=60
	job_wait busy filled 30
}

both_told() {
	job_told busy "$1" && job_told idle "$1"
}

both_noticed() {
	[ -n "$(job_time busy "$AWAY" "$BEFORE")" ] && [ -n "$(job_time idle "$AWAY" "$BEFORE")" ]
}

# Kills the donor machine; tests that both clients say so within three seconds of when it was ordered.
death_noticed() {
	local name said
	order kill donor
	wait_for 5 both_noticed
	for name in busy idle; do
		said=$(job_time $name "$AWAY" "$BEFORE")
		[ -n "$said" ] && [ $((said - BEFORE)) -le $NOTICE_US ]
		ok $? "a dead machine is told of within three seconds, client $name"
		note "noticed after $(ms $((${said:-0} - AFTER))) (since it was dead) to $(ms $((${said:-0} - BEFORE))) (since that was ordered)"
	done
	KILLED=$BEFORE
}

part_death_stays() {
	local name took
	death_jobs --timeout-ms 5000
	death_noticed
	wait_for 8 both_told "is gone"
	job_go idle
	for name in busy idle; do
		job_lost $name 5 "a machine that stays dead, client $name" "is gone (no answer in time): what it held is lost"
		took=$(($(job_time $name "is gone") - KILLED))
		[ $took -ge 5000000 ] && [ $took -le 6500000 ]
		ok $? "after the timeout, client $name"
		note "given up after $(ms $took)"
	done
}

part_death_restarts() {
	local name
	# Before they give up.
	death_jobs --timeout-ms 60000
	death_noticed
	donors_start_again
	donors_wait
	wait_for 10 both_told "has restarted"
	job_go idle
	for name in busy idle; do
		job_lost $name 10 "a machine that starts again, client $name" "has restarted: what it held is lost"
	done
	job new 0 -- "$FARPAGE_PAGES" 16 busy=1 check
	job_fine new 40 "a new job works"
}

part_death() {
	part_death_stays
	donors_start_again
	donors_wait
	part_death_restarts
}
