#!/bin/bash
# test_full.sh: a device larger than what its donors have: refused, or attached with --overcommit, and then a write that
# finds no room fails, nothing else does, and later ones work when there is room.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

said=$DONORS_DIRECTORY/blocks
donors_start 1 16M --slab 2M
device_attach full 32M
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "more than the donors have is refused"
expect "... in one line" 1 "$(wc -l <"$OUTPUT")"
matches "... that names the way" --overcommit "$(cat "$OUTPUT")"
matches "... and what there is" "16M" "$(cat "$OUTPUT")"
expect "... and nothing is left of it" "" "$(device_left)"

device_attach full 32M --overcommit
ok $? "with --overcommit it is attached" || note "$(cat "$OUTPUT")"
mkfifo "$DONORS_DIRECTORY/go"
timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" 32 fill check wait discard fill check >"$said" <"$DONORS_DIRECTORY/go" &
job=$!
exec 9>"$DONORS_DIRECTORY/go"
wait_for 30 blocks_said check "$said" $job
failed=$(blocks_of failed "$said" fill)
expect "of 32 MiB in runs of 256 KiB, half cannot be written" 64 "$failed"
expect "what could is right, what could not is as it was" "0 0" "$(blocks_of failed "$said" check) $(blocks_of wrong "$said" check)"
expect "... that is, zeroes" $((16 << 8)) "$(blocks_of zero "$said" check)"
expect "the donor is full" $((16 << 20)) "$(donor_leased "${DONOR_URIS[0]}")"
note "$(cat "$said")"

# Another donor cannot come to a device yet: room is made by giving some back.
exec 9>&-
wait $job
expect "no page is wrong" 0 $?
expect "when all was discarded, as much can be written again" 64 "$(blocks_of failed "$said" fill)"
device_detach full
ok $? "it is detached" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
