#!/bin/bash
# test_demo.sh BIN: in one machine, the part of the demo that needs one. A program in a control group swaps to donors,
# by ublk over soft-RoCE, and prints the same answer as without.
. tests/vm/guest.sh
. tests/lib/tap.sh
rxe_up
modprobe ublk_drv || guest_fail "the kernel has no ublk"
text=/run/text
sources=(./*/*.[ch] ./*/*/*.[ch])
cat "${sources[@]}" "${sources[@]}" >"$text" # 5 MB, so that the job needs about three times its 6M of memory
counters=$(PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/programs/swapped.py "$1" "$text" ublk "virtual machine" \
	rdma://10.77.0.1:0 64M 2>/run/complaints)
ok $? "the demo runs a program that swaps to donors" || note "$(cat /run/complaints)"
matches "the program prints the same answer with swap on donors" '"same": true' "$counters"
matches "the program swaps at least 1,000 pages out to donors" '"pages_out": [1-9][0-9]{3}' "$counters"
expect "no swap space is left after the demo" "" "$(tail -n +2 /proc/swaps)"
expect "no control group is left after the demo" "" "$(find /sys/fs/cgroup -name 'farpage*')"
tap_done
