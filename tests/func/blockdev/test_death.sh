#!/bin/bash
# test_death.sh: kills one of two donors under a busy device. Pages of the dead donor are I/O errors, all other pages
# are right, and no request hangs. Pages that are written again can be read again.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require

said=$DONORS_DIRECTORY/blocks
mib=24
# Each donor has room for the whole device, so the living donor can take every page that is written after the death.
donors_start 2 $((mib * 4 / 3))M --slab 2M
device_attach death ${mib}M
ok $? "a device attaches to two donors" || note "$(cat "$OUTPUT")"
mkfifo "$DONORS_DIRECTORY/go"
timeout 60 "$FARPAGE_BLOCKS" "$DEVICE" $mib fill check wait busy=1 check fill check >"$said" <"$DONORS_DIRECTORY/go" &
job=$!
exec 9>"$DONORS_DIRECTORY/go"
wait_for 30 blocks_said check "$said" $job
expect "every page of the device is written and read right" "0 0" "$(blocks_of failed "$said" fill) $(blocks_of failed "$said" check)"
held=$(donor_leased "${DONOR_URIS[0]}")
[ "$held" -gt 0 ] && [ "$(donor_leased "${DONOR_URIS[1]}")" -gt 0 ]
ok $? "both donors hold pages of the device"

exec 9>&-
wait_for 10 blocks_said wait "$said" $job
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
device_detach death
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "detach refuses a device that is open" || note "$(cat "$OUTPUT")"
exec 8<&-
device_detach death
ok $? "detach removes the device when it is closed" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
