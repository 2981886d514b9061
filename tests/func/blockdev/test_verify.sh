#!/bin/bash
# test_verify.sh: fio and our own program check a device over two donors: what was written is read, whatever the lengths
# and the order, what was discarded is zeroes, at several requests at a time.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require fio

donors_start 2 192M --slab 2M
device_attach verify 256M
ok $? "a device over two donors"
[ -b "$DEVICE" ]
ok $? "the last line is its path" || note "$(cat "$OUTPUT.device" "$OUTPUT")"
expect "its size" $((256 << 20)) "$(blockdev --getsize64 "$DEVICE")"
expect "its blocks are pages" 4096 "$(blockdev --getss "$DEVICE")"
expect "nothing is leased before it is written" 0 "$(($(donor_leased "${DONOR_URIS[0]}") + $(donor_leased "${DONOR_URIS[1]}")))"

"$FARPAGE_BLOCKS" "$DEVICE" ${FARPAGE_TEST_MIB:-32} check fill check busy=0.5 check discard check >"$DONORS_DIRECTORY/blocks"
expect "each page is right: filled, at random, discarded" 0 $?
expect "nothing failed" "0 0 0" "$(blocks_of failed "$DONORS_DIRECTORY/blocks" fill) \
$(blocks_of failed "$DONORS_DIRECTORY/blocks" busy=0.5) $(blocks_of failed "$DONORS_DIRECTORY/blocks" check)"
note "$(cat "$DONORS_DIRECTORY/blocks")"

DEVICE=$DEVICE SIZE=${FARPAGE_TEST_SIZE:-32M} timeout 60 fio tests/func/blockdev/verify.fio >"$DONORS_DIRECTORY/fio" 2>&1
status=$?
expect "fio finds every block right" 0 $status
[ $status -eq 0 ] || note "$(grep -v '^ ' "$DONORS_DIRECTORY/fio")"
[ "$(donor_leased "${DONOR_URIS[0]}")" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "both donors lent memory for it"

blkdiscard "$DEVICE"
ok $? "all of it can be discarded at once"
wait_for 5 donors_idle
ok $? "which gives all slabs back"
device_detach verify
ok $? "it is detached" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
