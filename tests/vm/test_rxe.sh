#!/bin/bash
# In one machine: a soft-RoCE device, and the helpers of guest.sh.
. tests/vm/guest.sh
. tests/func/preload/tap.sh

rxe_up
expect "there is a verbs device" rxe0 "$(ibv_devices | awk '/rxe/ { print $1 }')"
matches "its packets take a page" "active_mtu:[[:space:]]*4096" "$(ibv_devinfo -d rxe0)"

# Under the overlay nothing of this machine's can be changed, and all of the guest's can.
echo changed >/etc/hostname && echo changed >tests/vm/new
expect "files can be written here" "changed changed" "$(cat /etc/hostname tests/vm/new | xargs)"
huge_pages 16
expect "huge pages" 16 "$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages)"
expect "no limit on locked memory" unlimited "$(ulimit -l)"
wait_for 1 false
expect "wait_for gives up" 1 $?
(machine kill nobody) 2>/run/complaint
expect "asking for a machine that is not there fails" 1 $?
matches "and says so" "no machine nobody" "$(cat /run/complaint)"
tap_done
