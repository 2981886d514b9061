#!/bin/bash
# test_user_swap.sh BUILD: in one machine with ublk and control groups of version 2, users run programs on swap space by
# the helper, and a control group is squeezed. The machine that builds may have neither.
. tests/vm/guest.sh
modprobe ublk_drv || guest_fail "the kernel has no ublk"
export FARPAGE_TEST_FRONTEND=ublk
exec /usr/bin/python3 -B tests/vm/run_tests.py "$1" cli_helper cli_squeeze_group
