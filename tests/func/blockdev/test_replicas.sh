#!/bin/bash
# test_replicas.sh: a device whose pages are on two donors each: one of three is killed while it is busy, and another one
# when the replicas are made anew. No I/O error, and every block is right.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

said=$DONORS_DIRECTORY/blocks
log=$DONORS_DIRECTORY/log
mib=24
donors_start 3 $((mib * 2))M --slab 2M
device_attach replicas ${mib}M --replicas 2 --log "$log"
ok $? "a device over three donors" || note "$(cat "$OUTPUT")"
mkfifo "$DONORS_DIRECTORY/go"
timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check wait busy=2 check fill check >"$said" <"$DONORS_DIRECTORY/go" &
job=$!
exec 9>"$DONORS_DIRECTORY/go"
wait_for 30 blocks_said check "$said" $job
expect "all of it is written and right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"

rebuilt() { grep -q "rebuild: done" "$log"; }
exec 9>&-
wait_for 10 blocks_said wait "$said" $job
donor_kill 0
wait_for 30 rebuilt
ok $? "one is killed, and the others get what it had" || note "$(cat "$log")"
donor_kill 1
wait $job
expect "another one is killed: no page is wrong, and nothing hangs" 0 $?
note "$(cat "$said")"
expect "and no I/O fails" "0 0 0" \
	"$(blocks_of failed "$said" busy=2) $(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
device_detach replicas
ok $? "detached" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
