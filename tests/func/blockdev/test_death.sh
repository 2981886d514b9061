#!/bin/bash
# test_death.sh: one of two donors is killed under a busy device: what it held are I/O errors, all else is right, nothing
# hangs, and what is written again is there again.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

said=$DONORS_DIRECTORY/blocks
mib=24
# One writes them all, whatever the drawing: both donors hold pages.
donors_start 2 $((mib * 4 / 3))M --slab 2M
device_attach death ${mib}M
ok $? "a device over two donors" || note "$(cat "$OUTPUT")"
mkfifo "$DONORS_DIRECTORY/go"
timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check wait busy=1 check fill check >"$said" <"$DONORS_DIRECTORY/go" &
job=$!
exec 9>"$DONORS_DIRECTORY/go"
wait_for 30 blocks_said check "$said" $job
expect "all of it is written and right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
held=$(donor_leased "${DONOR_URIS[0]}")
[ "$held" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "on both donors"

exec 9>&-
wait_for 10 blocks_said wait "$said" $job
donor_kill 0
wait $job
expect "no page is wrong, and nothing hangs" 0 $?
note "$(cat "$said")"
grep -Eq '^(busy=1|check) .* failed [1-9]' "$said" # while it is busy, or when all are read after that
ok $? "what the dead donor held cannot be read"
[ "$(blocks_of reads "$said" busy=1)" -gt "$(blocks_of failed "$said" busy=1)" ]
ok $? "what the other holds can"
expect "what is written anew goes to the other, and is right" "0 0" \
	"$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"

exec 8<"$DEVICE"
device_detach death
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "while it is open it is not detached" || note "$(cat "$OUTPUT")"
exec 8<&-
device_detach death
ok $? "and detached" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
