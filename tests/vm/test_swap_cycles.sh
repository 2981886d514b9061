#!/bin/bash
# test_swap_cycles.sh CYCLES: in one machine, switches swap space of ublk over rdma:// on and off.
. tests/vm/guest.sh
rxe_up
modprobe ublk_drv || guest_fail "the kernel has no ublk"
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
exec bash tests/func/blockdev/test_swap_cycles.sh "$@"
