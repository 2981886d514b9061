#!/bin/bash
# What farpage run passes through: exit statuses, signals, standard streams; and what it says at the end.
here=$(dirname "$0")
. "$here/tap.sh"
require_userfaultfd
. "$here/../donors.sh"
donors_start 2 128M --slab 8M
directory=$DONORS_DIRECTORY
shm_before=$(ls /dev/shm)
run=("$FARPAGE" run --local 16M "${DONORS[@]}")

# A program that does not end until told so says by its first line that it is ready. Begun with an empty file.
wait_for_line() {
	until [ -s "$1" ] || ! kill -0 "$2" 2>/dev/null; do sleep 0.02; done
}

"${run[@]}" --quiet -- sh -c 'exit 37'
expect "exit status" 37 $?
"${run[@]}" --quiet -- sh -c 'kill -KILL $$'
expect "death by a signal" 137 $?
expect "standard input and output" "far memory" "$(echo 'far memory' | "${run[@]}" --quiet -- cat)"
expect "arguments" "a  b|-x|" "$("${run[@]}" --quiet sh -c 'printf "%s|" "$@"' sh 'a  b' -x)"

: >"$directory/out"
for signal in TERM INT HUP USR1; do
	# A shell without job control has its background commands ignore SIGINT, nohup all of them SIGHUP.
	env --default-signal=$signal "${run[@]}" --quiet -- bash -c "trap 'echo got $signal; exit 5' $signal; echo ready; while :; do sleep 0.05; done" \
		>"$directory/out" &
	pid=$!
	wait_for_line "$directory/out" $pid
	kill -$signal $pid
	wait $pid
	expect "SIG$signal to farpage: the command's answer" 5 $?
	expect "SIG$signal reaches the command once" 1 "$(grep -c "got $signal" "$directory/out")"
	: >"$directory/out"
done
: >"$directory/out"
"${run[@]}" --quiet -- bash -c 'echo ready; while :; do sleep 0.05; done' >"$directory/out" &
pid=$!
wait_for_line "$directory/out" $pid
kill -TERM $pid
wait $pid
expect "a command that dies of a signal passed on" 143 $?

# Job control: both stop and both go on.
: >"$directory/out"
set -m
"${run[@]}" --quiet -- bash -c 'echo $$; while [ ! -e "$0" ]; do sleep 0.02; done; exit 3' "$directory/go" >"$directory/out" &
pid=$!
set +m
wait_for_line "$directory/out" $pid
command=$(cat "$directory/out")
state_of() {
	sed 's/.*) //; s/ .*//' "/proc/$1/stat"
}
# shellcheck disable=SC2053 # the state is a pattern
wait_for_state() {
	local tries=0
	until [[ $(state_of "$1") = $2 ]] || [ $((tries += 1)) -gt 500 ]; do sleep 0.02; done
	[[ $(state_of "$1") = $2 ]]
}
kill -TSTP $pid
wait_for_state "$command" T
ok $? "SIGTSTP stops the command"
wait_for_state $pid T
ok $? "and farpage run with it"
kill -CONT $pid
wait_for_state "$command" '[!T]'
ok $? "SIGCONT lets it go on"
: >"$directory/go"
wait $pid
expect "and come to its end" 3 $?

summary=$("${run[@]}" -- true 2>&1)
matches "a small program" '^farpage: nothing needed far memory \(peak resident [0-9.]+[KM]\), wall [0-9.]+ s$' "$summary"
expect "--quiet says nothing" "" "$("${run[@]}" --quiet -- true 2>&1)"
big='my @a = map { "x" x 1000 . $_ } 1..60000; my $n = 0; $n += length for @a; $n += length for @a; print "$n\n"'
expect "a program that needs it" "$(perl -e "$big")" "$("${run[@]}" --stats "$directory/stats" -- perl -e "$big" 2>"$directory/err")"
matches "its summary" \
	'^farpage: peak resident [0-9.]+M of 16M, far [0-9.]+[KM]? \(peak [0-9.]+M\), faults [0-9]+ \(far [0-9]+, p50 [0-9.]+ us, p99 [0-9.]+ us\), fetched [0-9]+ pages, evicted [0-9]+(, [0-9]+% of its time waiting for far memory: --local [0-9.]+M would end that)?, wall [0-9.]+ s$' \
	"$(cat "$directory/err")"
expect "its statistics: processes" 1 "$(stat_of "$directory/stats" processes)"
expect "its statistics: budget" $((16 << 20)) "$(stat_of "$directory/stats" local_bytes)"
[ "$(stat_of "$directory/stats" far_peak_bytes)" -gt $((32 << 20)) ]
ok $? "its statistics: what was far"
printf '[run]\nlocal = 16M\nquiet = yes\n' >"$directory/farpage.conf"
expect "options from a file" "from a file" \
	"$("$FARPAGE" run --config "$directory/farpage.conf" "${DONORS[@]}" -- echo from a file 2>&1)"
matches "--help" 'usage: farpage run' "$("$FARPAGE" run --help)"

expect "a pipeline of the command's own" 200000 \
	"$("${run[@]}" --quiet -- bash -c 'seq 200000 | sort -rn | sort -n | tail -1')"
expect "an LD_PRELOAD of the user's stays" "libc.so.6" \
	"$(LD_PRELOAD=libc.so.6 "${run[@]}" --quiet -- sh -c 'echo "${LD_PRELOAD##*:}"')"
expect "nothing is left in /dev/shm" "$shm_before" "$(ls /dev/shm)"
tap_done
