#!/bin/bash
# test_replicas.sh: a device whose pages have two replicas each. One of three donors is killed while the device is busy,
# and a second one after the rebuild. No I/O fails, and every page is right.
. tests/func/blockdev/device.sh
device_require

log=$FOLDER/log
mib=24
donors_start 3 $((mib * 2))M --slab 2M
device_attach replicas ${mib}M --replicas 2 --log "$log"
ok $? "a device with two replicas attaches to three donors" || note "$(cat "$OUTPUT")"
blocks_start $mib fill check wait busy=2 check fill check
expect "every page of the device is written and read right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"

rebuilt() { grep -q "rebuild: done" "$log"; }
exec 9>&-
wait_for 10 said "^wait " "$said" $job
donor_kill 0
check "the rebuild makes new replicas after the first donor is killed" wait_for 30 rebuilt || note "$(cat "$log")"
donor_kill 1
wait $job
expect "blocks ends and reads no wrong page when a second donor is killed" 0 $?
note "$(cat "$said")"
expect "no read or write fails when two donors are killed one after the other" "0 0 0" \
	"$(blocks_of failed "$said" busy=2) $(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
check "detach removes the device" device_detach replicas || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
