#!/bin/bash
# test_thin.sh: a device of 1 TiB attaches fast, leases nothing before it is written, and its daemon uses little memory.
. tests/func/blockdev/device.sh
device_require

# Prints the daemon's resident memory in KiB: both processes together, with shared pages counted once.
daemon_memory() {
	local pid total=0 part
	for pid in $(device_pids thin); do
		part=$(sed -n 's/^Pss:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup")
		total=$((total + part))
	done
	echo $total
}

# Attaches a device and sets took, the time that this took in ms.
attach_timed() {
	local before=${EPOCHREALTIME/./} status
	device_attach "$@"
	status=$?
	took=$(((${EPOCHREALTIME/./} - before) / 1000))
	return $status
}

donors_start 2 96M --slab 16M
# An emulated processor is slow with a small device, too, so its time is added to the limit.
allowed=2000
if [ -n "${VM_NAME:-}" ]; then
	attach_timed small 16M
	note "a device of 16 MiB takes $took ms"
	check "a small device attaches and detaches" device_detach small || note "$(cat "$OUTPUT")"
	wait_for 10 donors_idle
	allowed=$((took + 2000))
fi
check "a device of 1 TiB attaches with --overcommit" attach_timed thin 1T --overcommit || note "$(cat "$OUTPUT")"
[ "$took" -lt $allowed ]
ok $? "a device of 1 TiB attaches in less than two seconds${VM_NAME:+ more than a small one}"
note "$took ms"
expect "a device of 1 TiB has its size" $((1 << 40)) "$(blockdev --getsize64 "$DEVICE")"
check "donors lend nothing to a device before it is written" donors_idle
memory=$(daemon_memory)
note "its daemon has $memory KiB"
[ "$memory" -gt 0 ] && [ "$memory" -le $((64 << 10)) ]
bounded $? "the daemon of an unwritten device of 1 TiB uses at most 64 MiB"

# Pages at both ends of the device.
"$FARPAGE_BLOCKS" "$DEVICE" 32 fill check >"$said"
expect "pages at the beginning of the device are written and read right" "0 0 0" "$? $(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
head -c 1M /dev/urandom >"$FOLDER/end"
dd if="$FOLDER/end" of="$DEVICE" bs=1M seek=$(((1 << 20) - 1)) oflag=direct conv=notrunc 2>/dev/null &&
	dd if="$DEVICE" bs=1M skip=$(((1 << 20) - 1)) iflag=direct 2>/dev/null | cmp - "$FOLDER/end"
ok $? "pages at the end of the device are written and read right"
pages=$((33 << 8))
memory=$(daemon_memory)
note "with $pages pages in use its daemon has $memory KiB"
[ "$memory" -le $(((64 << 10) + pages * 16 / 1024)) ]
bounded $? "the daemon uses at most 64 MiB and 16 bytes a page in use"
check "detach removes the device of 1 TiB" device_detach thin || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
