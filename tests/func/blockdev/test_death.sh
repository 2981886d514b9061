#!/bin/bash
# test_death.sh: kills one of two donors under a busy device. Pages of the dead donor are I/O errors, all other pages
# are right, and no request hangs. Pages that are written again can be read again.
. tests/func/blockdev/device.sh
device_require

mib=24
# Each donor has room for the whole device, so the living donor can take every page that is written after the death.
donors_start 2 $((mib * 4 / 3))M --slab 2M
check "a device attaches to two donors" device_attach death ${mib}M || note "$(cat "$OUTPUT")"
blocks_start $mib fill check wait busy=1 check fill check
expect "every page of the device is written and read right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
held=$(donor_leased "${DONOR_URIS[0]}")
[ "$held" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "both donors hold pages of the device"

exec 9>&-
wait_for 10 said "^wait " "$said" $job
donor_kill 0
wait $job
expect "blocks ends and reads no wrong page when a donor dies" 0 $?
note "$(cat "$said")"
grep -Eq '^(busy=1|check) .* failed [1-9]' "$said" # in the step busy=1, or in the check after it
ok $? "reads of the dead donor's pages fail"
[ "$(blocks_of reads "$said" busy=1)" -gt "$(blocks_of failed "$said" busy=1)" ]
ok $? "reads of the living donor's pages succeed"
expect "pages written after the death go to the living donor and are read right" "0 0" \
	"$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"

exec 8<"$DEVICE"
fails "detach refuses a device that is open" device_detach death || note "$(cat "$OUTPUT")"
exec 8<&-
check "detach removes the device when it is closed" device_detach death || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
