#!/bin/bash
# test_full.sh: a device larger than its donors' room. Attach refuses it, unless --overcommit is given. With
# --overcommit a write without room fails, all other requests succeed, and later writes succeed when there is room.
. tests/func/blockdev/device.sh
device_require

donors_start 1 16M --slab 2M
fails "attach refuses a device larger than its donors' room" device_attach full 32M
expect "attach prints one line about the lack of room" 1 "$(wc -l <"$OUTPUT")"
matches "attach names --overcommit when it refuses a device" --overcommit "$(cat "$OUTPUT")"
matches "attach names the donors' room when it refuses a device" "16M" "$(cat "$OUTPUT")"
expect "a refused attach leaves nothing" "" "$(device_left)"

device_attach full 32M --overcommit
ok $? "a device larger than its donors' room attaches with --overcommit" || note "$(cat "$OUTPUT")"
blocks_start 32 fill check wait discard fill check
failed=$(blocks_of failed "$said" fill)
expect "half of all writes to a device of twice the donor's room fail" 64 "$failed"
expect "pages are read right, whether their writes succeeded or failed" "0 0" "$(blocks_of failed "$said" check) $(blocks_of wrong "$said" check)"
expect "pages whose writes failed are read as zeroes" $((16 << 8)) "$(blocks_of zero "$said" check)"
expect "the donor has leased all its room" $((16 << 20)) "$(donor_leased "${DONOR_URIS[0]}")"
note "$(cat "$said")"

# A device cannot get another donor yet, so a discard makes room.
exec 9>&-
wait $job
expect "blocks reads no wrong page on a full device" 0 $?
expect "half of all writes fail again after a discard of every page" 64 "$(blocks_of failed "$said" fill)"
check "detach removes the overcommitted device" device_detach full || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
