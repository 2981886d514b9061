# The donor machine dies. A busy client and an idle one notice that in time, and their jobs end as they should.
# shellcheck shell=bash disable=SC2153,SC2154

AWAY='does not answer'
NOTICE_US=3000000

# death_jobs OPTION...: starts two jobs with memory on the donor, one busy, one idle.
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

# Kills the donor machine. Checks that both clients report it within three seconds of the order.
death_noticed() {
	local name said
	order kill donor
	wait_for 5 both_noticed
	for name in busy idle; do
		said=$(job_time $name "$AWAY" "$BEFORE")
		[ -n "$said" ] && [ $((said - BEFORE)) -le $NOTICE_US ]
		ok $? "client $name reports a dead donor machine within 3 s"
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
		job_lost $name 5 "donor machine stays dead, client $name" \
			"is gone (no answer in time): what it held is lost"
		took=$(($(job_time $name "is gone") - KILLED))
		[ $took -ge 5000000 ] && [ $took -le 6500000 ]
		ok $? "donor machine stays dead, client $name: the job gives up 5 to 6.5 s after the death"
		note "given up after $(ms $took)"
	done
}

part_death_restarts() {
	local name
	# The machine must start again before the jobs give up.
	death_jobs --timeout-ms 60000
	death_noticed
	donors_start_again
	donors_wait
	wait_for 10 both_told "has restarted"
	job_go idle
	for name in busy idle; do
		job_lost $name 10 "donor machine starts again, client $name" "has restarted: what it held is lost"
	done
	job new 0 -- "$FARPAGE_PAGES" 16 busy=1 check
	job_fine new 40 "a new job reads every byte right after the donor machine has started again"
}

part_death() {
	part_death_stays
	donors_start_again
	donors_wait
	part_death_restarts
}
