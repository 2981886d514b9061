#!/bin/bash
# test_verify.sh: fio and blocks check a device over two donors, with several requests at a time. Reads return the
# written bytes, for all lengths and orders. Discarded pages are zeroes.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require fio

donors_start 2 192M --slab 2M
device_attach verify 256M
ok $? "a device attaches to two donors"
[ -b "$DEVICE" ]
ok $? "the last line of attach is the device's path" || note "$(cat "$OUTPUT.device" "$OUTPUT")"
expect "a device of 256 MiB has its size" $((256 << 20)) "$(blockdev --getsize64 "$DEVICE")"
expect "the device's logical blocks have 4096 bytes" 4096 "$(blockdev --getss "$DEVICE")"
expect "donors lease nothing before the device is written" 0 "$(($(donor_leased "${DONOR_URIS[0]}") + $(donor_leased "${DONOR_URIS[1]}")))"

"$FARPAGE_BLOCKS" "$DEVICE" ${FARPAGE_TEST_MIB:-32} check fill check busy=0.5 check discard check >"$DONORS_DIRECTORY/blocks"
expect "blocks reads every page right after fill, random runs and discard" 0 $?
expect "no run of fill, busy or the last check fails" "0 0 0" "$(blocks_of failed "$DONORS_DIRECTORY/blocks" fill) \
$(blocks_of failed "$DONORS_DIRECTORY/blocks" busy=0.5) $(blocks_of failed "$DONORS_DIRECTORY/blocks" check)"
note "$(cat "$DONORS_DIRECTORY/blocks")"

DEVICE=$DEVICE SIZE=${FARPAGE_TEST_SIZE:-32M} timeout 60 fio tests/func/blockdev/verify.fio >"$DONORS_DIRECTORY/fio" 2>&1
status=$?
expect "fio reads every block right" 0 $status
[ $status -eq 0 ] || note "$(grep -v '^ ' "$DONORS_DIRECTORY/fio")"
[ "$(donor_leased "${DONOR_URIS[0]}")" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "both donors lease memory to the device"

blkdiscard "$DEVICE"
ok $? "blkdiscard discards the whole device"
wait_for 5 donors_idle
ok $? "a discard of the whole device releases all slabs"
device_detach verify
ok $? "detach removes the device" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
