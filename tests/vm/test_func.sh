#!/bin/bash
# test_func.sh rxe|siw BUILD PATTERN...: in one machine, runs functional tests with rdma:// donors.
. tests/vm/guest.sh
"$1_up"
export FARPAGE_TEST_URI=rdma://10.77.0.1:0
exec /usr/bin/python3 -B tests/vm/run_tests.py "${@:2}"
