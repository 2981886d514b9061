#!/bin/bash
# test_disk_ublk.sh BUILD PATTERN...: in one machine, runs functional tests of block devices with ublk and rdma://
# donors.
. tests/vm/guest.sh
rxe_up
modprobe -a ublk_drv ext4 || guest_fail "the kernel has no ublk"
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk FARPAGE_TEST_SIZE=4M FARPAGE_TEST_MIB=8
exec /usr/bin/python3 -B tests/vm/run_tests.py "$@"
