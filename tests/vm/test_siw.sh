#!/bin/bash
# In one machine: iWARP between its addresses.
. tests/vm/guest.sh
. tests/func/preload/tap.sh

siw_up
matches "there is an iWARP device" "transport:[[:space:]]*iWARP" "$(ibv_devinfo -d siw0)"
for address in 10.77.0.1 10.77.0.3; do
	rping -s -a "$address" -C 20 >/run/server 2>&1 &
	server=$!
	wait_for 10 rdma_listens 7174
	rping -c -a "$address" -C 20 -V >/run/client 2>&1
	status=$?
	wait $server
	ok $status "reads and writes to $address's memory by RDMA"
	[ $status -eq 0 ] || note "$(cat /run/server /run/client)"
done
tap_done
