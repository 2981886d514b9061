#!/bin/bash
# left_behind.sh before DIR: notes what is on this machine. left_behind.sh after DIR: prints TAP with one test for
# each kind of thing. A test fails if it finds a thing that did not exist before.
set -uo pipefail

# Programs that run from one of the test trees, or have a library of it loaded (under farpage run).
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

# Virtual machines that tests/vm/rig.py started in this checkout.
list_guests() {
	local cmdline pid
	for cmdline in /proc/[0-9]*/cmdline; do
		pid=${cmdline#/proc/}
		pid=${pid%/cmdline}
		case $(readlink "/proc/$pid/cwd")/ in
		"$PWD"/*)
			tr '\0' ' ' <"$cmdline" | grep -q '^qemu-system.* farpage-vm-' && echo "$pid $(tr '\0' ' ' <"$cmdline" | cut -c1-200)"
			;;
		esac
	done
}

list() {
	case $1 in
	swap) tail -n +2 /proc/swaps ;;
	loop) losetup --all --noheadings --output NAME,BACK-FILE ;;
	zram) find /sys/block -maxdepth 1 -name 'zram*' ;;
	ublk) find /dev -maxdepth 1 -name 'ublk[bc][0-9]*' ;;
	fuse) find /sys/class/bdi -maxdepth 1 -name '0:*' ;; # file systems without a disk, even if no longer mounted
	mount) cut -d' ' -f1,2 /proc/self/mounts ;;
	device) find /run/farpage -mindepth 1 -maxdepth 1 ! -name .lock ;;
	cgroup) find /sys/fs/cgroup -maxdepth 4 -type d -name 'farpage*' ;;
	shm) find /dev/shm -maxdepth 1 -name '*farpage*' ;;
	temporary) find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'farpage*' ;;
	process) list_processes ;;
	guest) list_guests ;;
	esac 2>/dev/null | sort
}

declare -A what=([swap]="swap space" [loop]="loop devices" [zram]="zram devices" [ublk]="ublk devices"
	[fuse]="file systems of FUSE" [mount]="mounts" [device]="folders of devices in /run/farpage" [cgroup]="control groups"
	[shm]="shared memory" [temporary]="temporary files" [process]="processes" [guest]="virtual machines")
kinds=(swap loop zram ublk fuse mount device cgroup shm temporary process guest)

if [ "$1" = before ]; then
	mkdir -p "$2"
	for kind in "${kinds[@]}"; do list "$kind" >"$2/$kind"; done
	exit
fi

number=0
for kind in "${kinds[@]}"; do
	number=$((number + 1))
	# A process may still be ending after its SIGTERM, so the check waits two seconds.
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
