#!/bin/bash
# test_verify.sh: fio and blocks check a device over two donors, with several requests at a time. Reads return the
# written bytes, for all lengths and orders. Discarded pages are zeroes.
. tests/func/blockdev/device.sh
device_require fio

donors_start 2 192M --slab 2M
check "a device attaches to two donors" device_attach verify 256M
check "the last line of attach is the device's path" [ -b "$DEVICE" ] || note "$(cat "$OUTPUT.device" "$OUTPUT")"
expect "a device of 256 MiB has its size" $((256 << 20)) "$(blockdev --getsize64 "$DEVICE")"
expect "the device's logical blocks have 4096 bytes" 4096 "$(blockdev --getss "$DEVICE")"
expect "donors lease nothing before the device is written" 0 "$(($(donor_leased "${DONOR_URIS[0]}") + $(donor_leased "${DONOR_URIS[1]}")))"

"$FARPAGE_BLOCKS" "$DEVICE" ${FARPAGE_TEST_MIB:-32} check fill check busy=0.5 check discard check >"$said"
expect "blocks reads every page right after fill, random runs and discard" 0 $?
expect "no run of fill, busy or the last check fails" "0 0 0" "$(blocks_of failed "$said" fill) \
$(blocks_of failed "$said" busy=0.5) $(blocks_of failed "$said" check)"
note "$(cat "$said")"

DEVICE=$DEVICE SIZE=${FARPAGE_TEST_SIZE:-32M} timeout 60 fio tests/func/blockdev/verify.fio >"$FOLDER/fio" 2>&1
status=$?
expect "fio reads every block right" 0 $status
[ $status -eq 0 ] || note "$(grep -v '^ ' "$FOLDER/fio")"
[ "$(donor_leased "${DONOR_URIS[0]}")" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "both donors lease memory to the device"

check "blkdiscard discards the whole device" blkdiscard "$DEVICE"
check "a discard of the whole device releases all slabs" wait_for 5 donors_idle
check "detach removes the device" device_detach verify || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
