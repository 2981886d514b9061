#!/bin/bash
# test_thin.sh: a device of 1 TiB is there soon, costs nothing until it is written, and its daemon keeps little memory.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

# KiB that the daemon has in memory: both processes, what they share counted once.
daemon_memory() {
	local pid total=0 part
	for pid in $(device_pids thin); do
		part=$(sed -n 's/^Pss:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup")
		total=$((total + part))
	done
	echo $total
}

# How long it took, ms: $took.
attach_timed() {
	local before=${EPOCHREALTIME/./} status
	device_attach "$@"
	status=$?
	took=$(((${EPOCHREALTIME/./} - before) / 1000))
	return $status
}

donors_start 2 96M --slab 16M
# An emulated processor takes its time for a small device, too.
allowed=2000
if [ -n "${VM_NAME:-}" ]; then
	attach_timed small 16M
	note "a device of 16 MiB takes $took ms"
	device_detach small
	ok $? "a small device comes and goes" || note "$(cat "$OUTPUT")"
	wait_for 10 donors_idle
	allowed=$((took + 2000))
fi
attach_timed thin 1T --overcommit
ok $? "a device of 1 TiB" || note "$(cat "$OUTPUT")"
[ "$took" -lt $allowed ]
ok $? "in less than two seconds${VM_NAME:+ more}"
note "$took ms"
expect "its size" $((1 << 40)) "$(blockdev --getsize64 "$DEVICE")"
donors_idle
ok $? "the donors lend nothing"
memory=$(daemon_memory)
note "its daemon has $memory KiB"
[ "$memory" -gt 0 ] && [ "$memory" -le $((64 << 10)) ]
bounded $? "its daemon has at most 64 MiB"

# Pages from everywhere: the ends of it, and some in between.
"$FARPAGE_BLOCKS" "$DEVICE" 32 fill check >"$DONORS_DIRECTORY/blocks"
expect "its beginning is right" "0 0 0" "$? $(blocks_of failed "$DONORS_DIRECTORY/blocks" fill) $(blocks_of failed "$DONORS_DIRECTORY/blocks" check)"
head -c 1M /dev/urandom >"$DONORS_DIRECTORY/end"
dd if="$DONORS_DIRECTORY/end" of="$DEVICE" bs=1M seek=$(((1 << 20) - 1)) oflag=direct conv=notrunc 2>/dev/null &&
	dd if="$DEVICE" bs=1M skip=$(((1 << 20) - 1)) iflag=direct 2>/dev/null | cmp - "$DONORS_DIRECTORY/end"
ok $? "and its end"
pages=$((33 << 8))
memory=$(daemon_memory)
note "with $pages pages in use its daemon has $memory KiB"
[ "$memory" -le $(((64 << 10) + pages * 16 / 1024)) ]
bounded $? "its daemon has at most 64 MiB and 16 bytes a page in use"
device_detach thin
ok $? "it is detached" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
