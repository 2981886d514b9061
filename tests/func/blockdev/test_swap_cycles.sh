#!/bin/bash
# test_swap_cycles.sh CYCLES: swap space on far memory is switched on and off again and again: nothing is left of it on the
# machine, and nothing at the donor. In a virtual machine: tests/vm/test_swap_cycles.sh.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
. tests/vm/swap.sh
device_require mkswap swapon
cycles=$1

# Swap spaces on the device.
spaces() {
	grep -c "^$DEVICE\b" /proc/swaps
}

cycle() {
	swap_on cycle 32M && [ "$(spaces)" = 1 ] && swap_off cycle && [ "$(spaces)" = 0 ]
}

kept() {
	rdma resource show "$1" 2>/dev/null | grep -c blockdev
}

trap 'swap_off cycle; device_cleanup' EXIT
swaps=$(tail -n +2 /proc/swaps)
donors_start 1 64M --slab 4M
cycle && cycle
ok $? "swap on and off" || note "$(cat "$OUTPUT")"
wait_for 10 donors_idle
donor_mark
started=$SECONDS
for ((done = 0; done < cycles; done++)); do
	if ! cycle; then
		note "$(cat "$OUTPUT")"
		break
	fi
done
expect "$cycles times" "$cycles" "$done"
note "$((SECONDS - started)) s"
expect_nothing_left 10
expect "no swap space is left" "$swaps" "$(tail -n +2 /proc/swaps)"
expect "no queue pair, memory region or protection domain of a daemon is left" "0 0 0" "$(kept qp) $(kept mr) $(kept pd)"
expect_donor_unchanged
tap_done
