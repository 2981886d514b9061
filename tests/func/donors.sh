# donors.sh: donors for a functional test. Bash scripts source this file. FARPAGE_MEMSERVER names the program.
#
#   donors_start COUNT SIZE [OPTION...]   starts COUNT donors that lend SIZE each, on free ports of FARPAGE_TEST_URI, or
#                                         of loopback if that is not set; waits until all listen; sets the arrays
#                                         DONOR_URIS, DONOR_PIDS, and DONORS, the options "--donor URI ..." for a client
#   donor_kill INDEX                      kills one donor, waits for its end, and removes it from the three arrays
#   donors_stop                           ends all donors and waits; also runs at exit
#   $DONORS_DIRECTORY                     a folder for the test's files, removed at exit
#
# A test with its own EXIT trap calls donors_cleanup there.

DONOR_URIS=()
DONOR_PIDS=()
DONORS=()
DONORS_DIRECTORY=$(mktemp -d)

donors_cleanup() {
	donors_stop
	rm -rf "$DONORS_DIRECTORY"
}
trap donors_cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

donors_start() {
	local count=$1 size=$2 index out pid uri
	shift 2
	for ((index = 0; index < count; index++)); do
		out=$DONORS_DIRECTORY/donor.${#DONOR_PIDS[@]}
		: >"$out.out"
		"$FARPAGE_MEMSERVER" --listen "${FARPAGE_TEST_URI:-tcp://127.0.0.1:0}" ${FARPAGE_TEST_URI:+--insecure} \
			--donate "$size" "$@" >"$out.out" 2>"$out.err" &
		pid=$!
		DONOR_PIDS+=("$pid")
		until uri=$(sed -n 's/^farpage-memserver: listening on //p' "$out.out") && [ -n "$uri" ]; do
			if ! kill -0 "$pid" 2>/dev/null; then
				echo "Bail out! a donor did not start: $(cat "$out.err")"
				exit 1
			fi
			sleep 0.02
		done
		DONOR_URIS+=("$uri")
		DONORS+=(--donor "$uri")
	done
}

donor_kill() {
	local uri
	kill -KILL "${DONOR_PIDS[$1]}"
	wait "${DONOR_PIDS[$1]}" 2>/dev/null
	unset "DONOR_PIDS[$1]" "DONOR_URIS[$1]"
	DONORS=()
	for uri in "${DONOR_URIS[@]}"; do
		DONORS+=(--donor "$uri")
	done
}

donors_stop() {
	local pid
	for pid in "${DONOR_PIDS[@]}"; do
		kill "$pid" 2>/dev/null
	done
	for pid in "${DONOR_PIDS[@]}"; do
		wait "$pid" 2>/dev/null
	done
	DONOR_PIDS=()
	DONOR_URIS=()
	DONORS=()
}
