#!/bin/bash
# left_behind.sh before DIR: notes what is on this machine; left_behind.sh after DIR: TAP, one test for each kind of
# thing, failed when there is something that was not there before.
set -uo pipefail

# Programs that run from one of the test trees, or have one of its libraries loaded (farpage run's).
list_processes() {
	local maps pid
	for maps in /proc/[0-9]*/maps; do
		pid=${maps#/proc/}
		pid=${pid%/maps}
		if grep -qE "^[^/]*$PWD/build(-asan|-tsan)?/" "$maps" 2>/dev/null; then
			echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		fi
	done
}

list() {
	case $1 in
	swap) tail -n +2 /proc/swaps ;;
	loop) losetup --all --noheadings --output NAME,BACK-FILE ;;
	zram) find /sys/block -maxdepth 1 -name 'zram*' ;;
	mount) cut -d' ' -f1,2 /proc/self/mounts ;;
	cgroup) find /sys/fs/cgroup -maxdepth 4 -type d -name 'farpage*' ;;
	shm) find /dev/shm -maxdepth 1 -name '*farpage*' ;;
	temporary) find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'farpage*' ;;
	process) list_processes ;;
	esac 2>/dev/null | sort
}

declare -A what=([swap]="swap space" [loop]="loop devices" [zram]="zram devices" [mount]="mounts" [cgroup]="control groups"
	[shm]="shared memory" [temporary]="temporary files" [process]="processes")
kinds=(swap loop zram mount cgroup shm temporary process)

if [ "$1" = before ]; then
	mkdir -p "$2"
	for kind in "${kinds[@]}"; do list "$kind" >"$2/$kind"; done
	exit
fi

number=0
for kind in "${kinds[@]}"; do
	number=$((number + 1))
	# Something that is just going (a process after its SIGTERM) has two seconds.
	for _ in {1..20}; do
		new=$(comm -13 "$2/$kind" <(list "$kind"))
		[ -n "$new" ] || break
		sleep 0.1
	done
	if [ -z "$new" ]; then
		echo "ok $number - no ${what[$kind]} left behind"
	else
		echo "not ok $number - no ${what[$kind]} left behind"
		# shellcheck disable=SC2001 # each line
		echo "$new" | sed 's/^/# /'
	fi
done
echo "1..${#kinds[@]}"
