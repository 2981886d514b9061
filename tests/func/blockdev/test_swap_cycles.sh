#!/bin/bash
# test_swap_cycles.sh CYCLES: switches swap space on far memory on and off over and over. Nothing of it stays on the
# machine or at the donor. In a virtual machine tests/vm/test_swap_cycles.sh runs this test.
. tests/vm/swap.sh
device_require mkswap swapon
cycles=$1

# Prints the number of swap spaces on the device.
spaces() {
	grep -c "^$DEVICE\b" /proc/swaps
}

cycle() {
	swap_on cycle 32M && [ "$(spaces)" = 1 ] && swap_off cycle && [ "$(spaces)" = 0 ]
}

kept() {
	rdma resource show "$1" 2>/dev/null | grep -c blockdev
}

at_exit 'swap_off cycle'
swaps=$(tail -n +2 /proc/swaps)
donors_start 1 64M --slab 4M
cycle && cycle
ok $? "swap goes on and off twice" || note "$(cat "$OUTPUT")"
wait_for 10 donors_idle
donor_mark
started=$SECONDS
for ((done = 0; done < cycles; done++)); do
	if ! cycle; then
		note "$(cat "$OUTPUT")"
		break
	fi
done
expect "swap goes on and off $cycles times" "$cycles" "$done"
note "$((SECONDS - started)) s"
expect_nothing_left 10
expect "/proc/swaps is as it was before" "$swaps" "$(tail -n +2 /proc/swaps)"
expect "no queue pair, memory region or protection domain of a daemon is left" "0 0 0" "$(kept qp) $(kept mr) $(kept pd)"
expect_donor_unchanged
tap_done
