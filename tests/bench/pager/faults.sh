#!/bin/bash
# faults.sh BUILD MINUTES: runs stress-ng's checked memory workers under farpage run --replicas 2 for that long, on
# three donors. One donor after the other fails. It is stopped for some seconds and continued; killed and started
# anew and empty; or drained and undrained. Before each fault every slab has two replicas. Prints TAP: no byte is
# wrong, and no page is lost.
cd "$(dirname "$(readlink -f "$0")")/../../.." || exit
build=$(readlink -f "$1") seconds=$(($2 * 60))
export FARPAGE=$build/cli/farpage FARPAGE_MEMSERVER=$build/memserver/farpage-memserver
export FARPAGE_PRELOAD_LIBRARY=$build/pager/preload/libfarpage-preload.so
. tests/lib/donor.sh
require_userfaultfd
WORKERS=2 # each a process with a pager of its own
WHOLE_LIMIT=120
stats=$FOLDER/stats log=$FOLDER/log
declare -A counts=([stop]=0 [kill]=0 [drain]=0)

at_exit '[ -z "${job:-}" ] || kill "$job" 2>/dev/null'

# Each process reports when replicas are missing, and when none is missing any more. A process notices a fault within
# seconds.
whole() {
	ended "$job" || {
		[ "$(grep -c 'rebuild: [0-9]' "$log")" = "$(grep -c 'rebuild: done' "$log")" ] &&
			[ $(($(date +%s) - $(stat -c %Y "$log"))) -gt 3 ]
	}
}

# Prints how many clients have slabs at the donor, since the donor's last start.
holders() {
	awk '/ leases slab / { slabs[$3]++ } / gave slab / { slabs[$3]-- } / is gone/ { delete slabs[$3] }
		END { for (client in slabs) count += slabs[client] > 0; print count + 0 }' "$FOLDER/donor.$1.err"
}

# Succeeds if all clients have connected to the donor since its start, so they know that it has none of their slabs.
found() {
	ended "$job" || [ "$(grep -c " has come" "$FOLDER/donor.$1.err")" -ge $WORKERS ]
}

donor_stop() {
	kill -STOP "${DONOR_PIDS[$1]}"
	sleep $((1 + RANDOM % 10)) # shorter or longer than it is waited for
	kill -CONT "${DONOR_PIDS[$1]}"
}

donor_killed() {
	donor_kill "$1"
	sleep $((RANDOM % 2 * (RANDOM % 10))) # every other one starts anew at once
	donor_again "$1" && wait_for 60 found "$1"
}

donor_drain() {
	"$FARPAGE" donors drain "${DONOR_URIS[$1]}" --timeout $WHOLE_LIMIT >"$FOLDER/drain" 2>&1 ||
		ended "$job" || return 1
	"$FARPAGE" donors undrain "${DONOR_URIS[$1]}" >>"$FOLDER/drain" 2>&1
}

# fault KIND DONOR
fault() {
	local begin=$SECONDS
	counts[$1]=$((counts[$1] + 1))
	case $1 in
	stop) donor_stop "$2" ;;
	kill) donor_killed "$2" ;;
	drain) donor_drain "$2" ;;
	esac && wait_for $WHOLE_LIMIT whole && return
	note "donor $2, $1: not over after $((SECONDS - begin)) s"
	note "$(tail -n 20 "$log" "$FOLDER/drain" "$FOLDER/donor.$2.err")"
	return 1
}

command -v stress-ng >/dev/null || skip_all "stress-ng is not installed"
# The donors have their own address, and ports outside the kernel's automatic range, because a restarted donor needs
# its old port.
for port in 21470 21471 21472; do
	FARPAGE_TEST_URI=tcp://127.78.$((BASHPID >> 8 & 255)).$((BASHPID & 255)):$port donors_start 1 512M --slab 4M
done
"$FARPAGE" run --local 32M --replicas 2 "${DONORS[@]}" --stats "$stats" -- stress-ng --vm $WORKERS --vm-bytes 256M \
	--vm-keep --verify --oomable --timeout "$seconds" --verbose --temp-path "$FOLDER" \
	>"$FOLDER/out" 2>"$log" &
job=$!
kinds=(stop kill drain) failed=0
wait_for 60 whole
while ! ended "$job"; do
	donor=$((RANDOM % 3))
	[ "$(holders $donor)" -gt 0 ] || continue # nobody would miss it
	fault "${kinds[RANDOM % 3]}" $donor || { failed=1 && break; }
done
expect "each fault passes, and all is whole again" 0 $failed
[ $failed = 0 ] || kill "$job" 2>/dev/null
wait "$job"
expect "stress-ng ends well" 0 $?
job=
said_by_stress=$(grep -hE 'stress-ng: (fail|error)|SIGBUS|SIGSEGV|OOM|respawn|restart' "$FOLDER/out" "$log" |
	grep -v "donor .* has restarted")
expect "stress-ng has found no byte wrong, and no worker was ended" "" "$said_by_stress"
expect "no page was lost" 0 "$(stat_of "$stats" lost_pages)"
expect "the workers' memory was far" $WORKERS "$(stat_of "$stats" processes)"
note "stops ${counts[stop]}, kills ${counts[kill]}, drains ${counts[drain]} in $SECONDS s"
note "fetched $(stat_of "$stats" fetched_pages) pages, $(stat_of "$stats" faults_far) far faults, far peak $(stat_of "$stats" far_peak_bytes) bytes"
note "$(grep -h 'metrc.* vm  ' "$FOLDER/out" "$log")"
tap_done
