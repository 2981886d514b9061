#!/bin/bash
# A process shares the memory of its maker. The maker ends, and with it the pager. The process lives on until it needs a
# far page. It neither hangs nor reads zeroes.
. tests/lib/donor.sh
require_userfaultfd
victim=$1
donors_start 2 512M --slab 8M
export SIZE_MB=48
why="shares the memory of process [0-9]+, which was partly far and has ended: it is stopped"

# Waits for all processes, because each holds the pipe to cat open.
sharer() {
	{
		"$FARPAGE" run --local 16M "${DONORS[@]}" --quiet -- "$victim" "$@" 2>"$FOLDER/err"
		echo $? >"$FOLDER/status"
	} | cat
}
for way in vfork clone; do
	expect "$way: a process that needs no far page outlives its maker" alive "$(sharer $way plain)"
	expect "$way: farpage prints nothing about a process that needs no far page" \
		"" "$(grep farpage: "$FOLDER/err")"
	expect "$way: farpage run exits with 128 + 9 after SIGKILL ends the maker" 137 "$(cat "$FOLDER/status")"
	expect "$way: a process that needs a far page is stopped when its maker has ended" "" "$(sharer $way far)"
	matches "$way: a line says why the process is stopped" "$why" "$(cat "$FOLDER/err")"
done
expect "clone: a child of the process is stopped when it needs a far page" "" "$(sharer clone fork)"
matches "clone: a line says why the child of the process is stopped" "$why" "$(cat "$FOLDER/err")"
expect "clone: a process that needs no far page lives on when its maker executes a program" \
	alive "$(sharer clone plain exec)"
expect "clone: a process that needs a far page is stopped when its maker has executed a program" \
	"" "$(sharer clone far exec)"

# farpage run may not kill processes of another PID namespace. They wait until the namespace's first process ends.
if unshare --pid --fork true 2>"$FOLDER/err"; then
	# shellcheck disable=SC2016 # the inner shell expands its arguments
	victim=unshare sharer --pid --fork sh -c '
		"$0" vfork far
		for i in $(seq 300); do grep -q "PID namespace" "$1" && break; sleep 0.1; done' "$1" "$FOLDER/err" >"$FOLDER/out"
	expect "a process in a PID namespace waits for its far page when its maker has ended" "" "$(<"$FOLDER/out")"
	matches "a line says why the process in a PID namespace waits" \
		"^farpage: process [0-9]+ of a PID namespace shares the memory of process [0-9]+, .* has ended: it waits" \
		"$(<"$FOLDER/err")"
else
	ok 0 "a process in a PID namespace waits for its far page when its maker has ended # SKIP no PID namespaces here"
fi
tap_done
