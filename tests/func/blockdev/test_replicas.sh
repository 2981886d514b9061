#!/bin/bash
# test_replicas.sh: a device whose pages have two replicas each. One of three donors is killed while the device is busy,
# and a second one after the rebuild. No I/O fails, and every page is right.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

said=$DONORS_DIRECTORY/blocks
log=$DONORS_DIRECTORY/log
mib=24
donors_start 3 $((mib * 2))M --slab 2M
device_attach replicas ${mib}M --replicas 2 --log "$log"
ok $? "a device with two replicas attaches to three donors" || note "$(cat "$OUTPUT")"
mkfifo "$DONORS_DIRECTORY/go"
timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check wait busy=2 check fill check >"$said" <"$DONORS_DIRECTORY/go" &
job=$!
exec 9>"$DONORS_DIRECTORY/go"
wait_for 30 blocks_said check "$said" $job
expect "every page of the device is written and read right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"

rebuilt() { grep -q "rebuild: done" "$log"; }
exec 9>&-
wait_for 10 blocks_said wait "$said" $job
donor_kill 0
wait_for 30 rebuilt
ok $? "the rebuild makes new replicas after the first donor is killed" || note "$(cat "$log")"
donor_kill 1
wait $job
expect "blocks ends and reads no wrong page when a second donor is killed" 0 $?
note "$(cat "$said")"
expect "no read or write fails when two donors are killed one after the other" "0 0 0" \
	"$(blocks_of failed "$said" busy=2) $(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
device_detach replicas
ok $? "detach removes the device" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
