#!/bin/bash
# test_cycles.sh CYCLES: attaches, uses and detaches a device over and over. Nothing of it stays on the machine or at
# the donor.
. tests/func/blockdev/device.sh
device_require
cycles=$1

cycle() {
	device_attach cycles 16M && "$FARPAGE_BLOCKS" "$DEVICE" 1 fill check >"$said" && device_detach cycles
}

donors_start 1 64M --slab 4M
for _ in 1 2 3; do
	cycle || break
done
wait_for 5 donors_idle
donor_mark
free=$(losetup --find 2>/dev/null)
for ((done = 0; done < cycles; done++)); do
	if ! cycle; then
		note "$(cat "$OUTPUT" "$said")"
		break
	fi
done
expect "a device was attached, written, read and detached $cycles times" "$cycles" "$done"
expect_nothing_left
expect_donor_unchanged
note "the first free loop device: $free before, $(losetup --find 2>/dev/null) after"
tap_done
