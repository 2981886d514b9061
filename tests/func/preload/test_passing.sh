#!/bin/bash
# farpage run passes exit statuses, signals and standard streams through. At the end it prints a summary.
. tests/lib/donor.sh
require_userfaultfd
donors_start 2 128M --slab 8M
shm_before=$(ls /dev/shm)
run=("$FARPAGE" run --local 16M "${DONORS[@]}")

"${run[@]}" --quiet -- sh -c 'exit 37'
expect "farpage run exits with the exit status of its command" 37 $?
"${run[@]}" --quiet -- sh -c 'kill -KILL $$'
expect "farpage run exits with 128 + 9 if its command dies of SIGKILL" 137 $?
expect "the command has the standard input and output of farpage run" \
	"far memory" "$(echo 'far memory' | "${run[@]}" --quiet -- cat)"
expect "the command gets its arguments unchanged" \
	"a  b|-x|" "$("${run[@]}" --quiet sh -c 'printf "%s|" "$@"' sh 'a  b' -x)"

: >"$FOLDER/out"
for signal in TERM INT HUP USR1; do
	# env restores the signal's default action. A shell without job control makes background commands ignore SIGINT.
	# nohup makes all commands ignore SIGHUP.
	env --default-signal=$signal "${run[@]}" --quiet -- bash -c "trap 'echo got $signal; exit 5' $signal; echo ready; while :; do sleep 0.05; done" \
		>"$FOLDER/out" &
	pid=$!
	wait_for 60 said . "$FOLDER/out" $pid
	kill -$signal $pid
	wait $pid
	expect "farpage run exits with the status of a command that handles SIG$signal" 5 $?
	expect "SIG$signal sent to farpage run reaches the command once" 1 "$(grep -c "got $signal" "$FOLDER/out")"
	: >"$FOLDER/out"
done
: >"$FOLDER/out"
"${run[@]}" --quiet -- bash -c 'echo ready; while :; do sleep 0.05; done' >"$FOLDER/out" &
pid=$!
wait_for 60 said . "$FOLDER/out" $pid
kill -TERM $pid
wait $pid
expect "farpage run exits with 128 + 15 if its command dies of a SIGTERM passed on" 143 $?

# Job control: farpage run and its command stop together and continue together.
: >"$FOLDER/out"
set -m
"${run[@]}" --quiet -- bash -c 'echo $$; while [ ! -e "$0" ]; do sleep 0.02; done; exit 3' "$FOLDER/go" >"$FOLDER/out" &
pid=$!
set +m
wait_for 60 said . "$FOLDER/out" $pid
command=$(cat "$FOLDER/out")
# in_state PID STATE: STATE is a pattern.
in_state() {
	sed 's/.*) //; s/ .*//' "/proc/$1/stat" | grep -qx "$2"
}
kill -TSTP $pid
check "SIGTSTP sent to farpage run stops the command" wait_for 10 in_state "$command" T
check "SIGTSTP stops farpage run" wait_for 10 in_state $pid T
kill -CONT $pid
check "SIGCONT sent to farpage run continues the command" wait_for 10 in_state "$command" '[^T]'
: >"$FOLDER/go"
wait $pid
expect "farpage run exits with the status of a command that was stopped and continued" 3 $?

summary=$("${run[@]}" -- true 2>&1)
matches "the summary of a small program says that nothing needed far memory" \
	'^farpage: nothing needed far memory \(peak resident [0-9.]+[KM]\), wall [0-9.]+ s$' "$summary"
expect "farpage run --quiet prints nothing" "" "$("${run[@]}" --quiet -- true 2>&1)"
big='my @a = map { "x" x 1000 . $_ } 1..60000; my $n = 0; $n += length for @a; $n += length for @a; print "$n\n"'
plain=$(perl -e "$big")
expect "a program that needs far memory prints what it prints without farpage" \
	"$plain" "$("${run[@]}" --stats "$FOLDER/stats" -- perl -e "$big" 2>"$FOLDER/err")"
matches "the summary of a program with far memory gives memory, faults, pages and time" \
	'^farpage: peak resident [0-9.]+M of 16M, far [0-9.]+[KM]? \(peak [0-9.]+M\), faults [0-9]+ \(far [0-9]+, p50 [0-9.]+ us, p99 [0-9.]+ us\), fetched [0-9]+ pages, evicted [0-9]+(, [0-9]+% of its time waiting for far memory: --local [0-9.]+M would end that)?, wall [0-9.]+ s$' \
	"$(grep 'peak resident' "$FOLDER/err")"
expect "--stats counts one process" 1 "$(stat_of "$FOLDER/stats" processes)"
expect "--stats has the budget of --local in bytes" $((16 << 20)) "$(stat_of "$FOLDER/stats" local_bytes)"
check "--stats has a peak of far memory above 32 MiB" [ "$(stat_of "$FOLDER/stats" far_peak_bytes)" -gt $((32 << 20)) ]
if unshare --user --map-root-user true 2>"$FOLDER/err"; then
	expect "a program in a user namespace of its own prints what it prints without farpage" "$plain" \
		"$("${run[@]}" -- unshare --user --map-root-user perl -e "$big" 2>"$FOLDER/err")"
	matches "a process says that it may not report from a user namespace of its own" \
		'^farpage: process [0-9]+ may not report to farpage run, because ' "$(grep 'may not report' "$FOLDER/err")"
else
	ok 0 "a process says that it may not report from a user namespace of its own # SKIP no user namespaces here"
fi
namespaced=(unshare --pid --fork)
if "${namespaced[@]}" --mount-proc true 2>"$FOLDER/err"; then
	"${run[@]}" --stats "$FOLDER/stats" -- "${namespaced[@]}" perl -e "$big" >"$FOLDER/out" 2>"$FOLDER/err"
	expect "a process in a PID namespace of its own prints what it prints without farpage" "$plain" \
		"$(<"$FOLDER/out")"
	expect "a process in a PID namespace of its own is counted" 1 "$(stat_of "$FOLDER/stats" processes)"
	"${run[@]}" -- "${namespaced[@]}" --mount-proc perl -e "$big" >"$FOLDER/out" 2>"$FOLDER/err"
	matches "a process with a /proc of its own says that it may not report" \
		'^farpage: process [0-9]+ may not report to farpage run, because ' "$(grep 'may not report' "$FOLDER/err")"
else
	ok 0 "a process in a PID namespace of its own is counted # SKIP no PID namespaces here"
fi
ln -s /bin/true "$FOLDER/podman"
expect "one line says that the programs of podman have no far memory" 1 \
	"$("${run[@]}" --engine pager -- "$FOLDER/podman" 2>&1 | grep -c 'started where farpage does not reach them')"
printf '[run]\nlocal = 16M\nquiet = yes\n' >"$FOLDER/farpage.conf"
expect "farpage run takes options from the file of --config" "from a file" \
	"$("$FARPAGE" run --config "$FOLDER/farpage.conf" "${DONORS[@]}" -- echo from a file 2>&1)"
matches "farpage run --help prints the usage" 'usage: farpage run' "$("$FARPAGE" run --help)"

expect "a command runs a pipeline of its own" 200000 \
	"$("${run[@]}" --quiet -- bash -c 'seq 200000 | sort -rn | sort -n | tail -1')"
expect "farpage run keeps the user's LD_PRELOAD" "libc.so.6" \
	"$(LD_PRELOAD=libc.so.6 "${run[@]}" --quiet -- sh -c 'echo "${LD_PRELOAD##*:}"')"
expect "farpage run leaves no file in /dev/shm" "$shm_before" "$(ls /dev/shm)"
tap_done
