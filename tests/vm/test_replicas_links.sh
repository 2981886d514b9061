#!/bin/bash
# test_replicas_links.sh: in one machine, a program checks each of its pages under farpage run --replicas 2. Each of
# three donors (tcp://) is behind a link of its own. One link after the other is down for some seconds, in both
# directions or in one, and a donor stalls. The program goes on, no page is wrong, and nothing hangs. Stalls of the
# program are printed, not checked, because other load of the processors decides them, too.
. tests/vm/guest.sh
. tests/vm/swap.sh
said=/run/said
memserver=$FARPAGE_MEMSERVER
phases=0

# link_make NUMBER: makes a network namespace for the donor, 10.78.NUMBER.2, and a link to it from 10.78.NUMBER.1.
link_make() {
	ip netns add "donor$1"
	ip link add "link$1" type veth peer name eth0 netns "donor$1"
	ip address add "10.78.$1.1/24" dev "link$1"
	ip link set "link$1" up
	ip -n "donor$1" address add "10.78.$1.2/24" dev eth0
	ip -n "donor$1" link set eth0 up
}

# The program that donors_start starts as the donor. It has a process of its own, so it can exec.
donor_behind_link() {
	exec ip netns exec "donor$number" "$memserver" "$@"
}

link_down() {
	ip link set "link$1" down
}

link_up() {
	ip link set "link$1" up
}

# In one direction, packets go to an Ethernet address that no interface has.
requests_lost() {
	ip neighbour replace "10.78.$1.2" lladdr 02:00:00:00:00:99 nud permanent dev "link$1"
}

requests_come() {
	ip neighbour del "10.78.$1.2" dev "link$1"
}

answers_lost() {
	ip -n "donor$1" neighbour replace "10.78.$1.1" lladdr 02:00:00:00:00:99 nud permanent dev eth0
}

answers_come() {
	ip -n "donor$1" neighbour del "10.78.$1.1" dev eth0
}

donor_stops() {
	kill -STOP "${DONOR_PIDS[$1 - 1]}"
}

donor_continues() {
	kill -CONT "${DONOR_PIDS[$1 - 1]}"
}

program_faults() {
	awk '{ sub(/.*\) /, ""); print $8 + $10 }' "/proc/$program/stat"
}

program_faulted() {
	ended "$program" || [ "$(program_faults)" -ge $((program_marked + $1)) ]
}

# program_works COUNT: waits until the program has taken COUNT page faults.
program_works() {
	program_marked=$(program_faults)
	wait_for 60 program_faulted "$1"
}

said_lines() {
	grep -c "$1" $said
}

# Succeeds if the donor answers again and each page has two replicas again. The next fault hits one of these.
answers_again() {
	tail -n +$((said_marked + 1)) $said | grep -q "${DONOR_URIS[$1 - 1]} .*answers again" &&
		[ "$(said_lines "lack a replica")" = "$(said_lines "rebuild: done")" ]
}

# fault NAME BEGIN END NUMBER SECONDS: checks that the program goes on through a fault of the donor.
fault() {
	said_marked=$(wc -l <$said)
	"$2" "$4"
	sleep "$5"
	check "$1 for $5 s: the program fetches pages meanwhile" program_works 100
	"$3" "$4"
	wait_for 60 answers_again "$4"
	ok $? "$1 for $5 s: the donor answers again, and no page lacks a replica" || note "$(cat $said)"
	check "$1 for $5 s: the program fetches pages afterwards" program_works 100
	wait_for 60 answers_again "$4"
	job_next until 60
	wait_for 60 job_told stall $((++phases))
	if ended "$program"; then
		ok 1 "$1 for $5 s: the program still runs"
		note "$(cat "$JOB_SAID" $said)"
		tap_done
	fi
	expect "$1 for $5 s: no page is wrong" 0 "$(grep -c wrong "$JOB_SAID")"
	note "$1: longest stall $(job_stall) ms, at $SECONDS s"
	note "$(tail -n +$((said_marked + 1)) $said)"
}

for number in 1 2 3; do
	link_make $number
	FARPAGE_TEST_URI=tcp://10.78.$number.2:0 FARPAGE_MEMSERVER=donor_behind_link \
		donors_start 1 96M --slab 4M --heartbeat 500 --grace 110
done
mkdir /run/job
mkfifo /run/job/in
"$FARPAGE" run --local 8M --quiet --replicas "${REPLICAS:-2}" --timeout-ms 100000 "${DONORS[@]}" -- \
	"$FARPAGE_PAGES" 20 until stall until stall until stall until stall check </run/job/in >"$JOB_SAID" 2>$said &
JOB=$!
exec 9<>/run/job/in
wait_for 60 job_said filled
program=$(pgrep -x vm_pages)
ok $? "a program with less than half of its memory local fills its memory" || note "$(cat $said)"
fault "link down" link_down link_up 1 4
fault "requests lost" requests_lost requests_come 2 4
fault "answers lost" answers_lost answers_come 3 4
fault "donor stalled" donor_stops donor_continues 1 5
job_end
expect "the program ends with every page right" 0 $?
note "$(tail -n 1 "$JOB_SAID")"
note "$SECONDS s"
tap_done
