# donor.sh: starts donors for tests in bash. donor.h and donor.py do so for tests in C and Python. FARPAGE_MEMSERVER
# names the program. Bash scripts source this file in the checkout; it sources tap.sh.
#
#   donors_start COUNT SIZE [OPTION...]   starts COUNT donors that lend SIZE each, on free ports of FARPAGE_TEST_URI, or
#                                         of loopback if that is not set
#   donor_run INDEX URI [OPTION...]       starts one donor at an address
#   donor_again INDEX                     starts a donor that has ended again, with its options and at its address
#   donor_kill INDEX                      kills a donor and waits for its end
#   donors_end                            ends the donors, and checks that they ran and end well; tap_done does this
#   at_exit COMMAND runs the command when the test exits; later commands run first
#   $FOLDER                               a folder for the test's files, removed at exit
#
# donors_start numbers donors from 0, in the order of their start. Three arrays describe the donors:
#
#   DONOR_URIS                            the address of each donor, also of one that was killed
#   DONOR_PIDS                            the process of each donor that runs
#   DONORS                                the options "--donor URI ..." for a client of all donors that run
#
# A start waits until the donor listens. If the donor never listens, the test ends. donor.INDEX.err in $FOLDER is the
# donor's log.
# shellcheck shell=bash

. tests/lib/tap.sh

DONOR_URIS=()
DONOR_PIDS=()
DONORS=()
FOLDER=$(mktemp -d)
donor_options=()
at_exits=()

at_exit() {
	at_exits=("$1" "${at_exits[@]}")
}

exit_run() {
	local command
	for command in "${at_exits[@]}"; do
		eval "$command"
	done
	donors_stop || true
	rm -rf "$FOLDER"
}
trap exit_run EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

donors_listed() {
	local index
	DONORS=()
	for index in "${!DONOR_PIDS[@]}"; do
		DONORS+=(--donor "${DONOR_URIS[index]}")
	done
}

# donor_run INDEX URI [OPTION...]
donor_run() {
	local index=$1 uri=$2 log=$FOLDER/donor.$1 line
	shift 2
	: >"$log.out"
	"$FARPAGE_MEMSERVER" --listen "$uri" "$@" >"$log.out" 2>"$log.err" &
	DONOR_PIDS[index]=$!
	until read -r line <"$log.out"; do
		if ended "${DONOR_PIDS[index]}"; then
			echo "Bail out! a donor does not start: $(cat "$log.err")"
			exit 1
		fi
		sleep 0.02
	done
	DONOR_URIS[index]=${line##* }
	printf -v "donor_options[$index]" '%q ' "$@"
	donors_listed
}

donor_again() {
	eval "donor_run $1 '${DONOR_URIS[$1]}' ${donor_options[$1]}"
}

donors_start() {
	local count=$1 size=$2 index
	shift 2
	for ((index = 0; index < count; index++)); do
		donor_run ${#DONOR_URIS[@]} "${FARPAGE_TEST_URI:-tcp://127.0.0.1:0}" ${FARPAGE_TEST_URI:+--insecure} \
			--donate "$size" "$@"
	done
}

donor_kill() {
	kill -KILL "${DONOR_PIDS[$1]}"
	wait "${DONOR_PIDS[$1]}" 2>/dev/null
	unset "DONOR_PIDS[$1]"
	donors_listed
}

# Returns 1 if a donor had ended already, or did not end well.
donors_stop() {
	local pid status=0
	for pid in "${DONOR_PIDS[@]}"; do
		kill -CONT "$pid" 2>/dev/null || true
		kill "$pid" 2>/dev/null || status=1
	done
	for pid in "${DONOR_PIDS[@]}"; do
		wait "$pid" 2>/dev/null || status=1
	done
	DONOR_PIDS=()
	DONOR_URIS=()
	DONORS=()
	return $status
}

donors_end() {
	[ ${#DONOR_PIDS[@]} -eq 0 ] ||
		check "each donor runs until SIGTERM and ends with status 0" donors_stop || note "$(tail -n 8 "$FOLDER"/donor.*.err)"
}
