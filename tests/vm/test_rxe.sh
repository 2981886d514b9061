#!/bin/bash
# In one machine, a soft-RoCE device and the helpers of guest.sh.
. tests/vm/guest.sh
. tests/lib/tap.sh

rxe_up
expect "rxe_up makes one verbs device, rxe0" rxe0 "$(ibv_devices | awk '/rxe/ { print $1 }')"
matches "packets of rxe0 carry a page of 4096 bytes" "active_mtu:[[:space:]]*4096" "$(ibv_devinfo -d rxe0)"

# The guest can change every file it sees. The overlay keeps the changes away from the host.
echo changed >/etc/hostname && echo changed >tests/vm/new
expect "the guest can change files of the system and of the checkout" \
	"changed changed" "$(cat /etc/hostname tests/vm/new | xargs)"
huge_pages 16
expect "huge_pages 16 gives 16 free huge pages" 16 "$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages)"
expect "locked memory has no limit in the guest" unlimited "$(ulimit -l)"
wait_for 1 false
expect "wait_for gives up with status 1" 1 $?
(machine kill nobody) 2>/run/complaint
expect "machine kill of an unknown machine fails with status 1" 1 $?
matches "machine kill of an unknown machine names it" "no machine nobody" "$(cat /run/complaint)"
tap_done
