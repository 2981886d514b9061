#!/bin/bash
# test_killed.sh: kills the daemon of a FUSE device. Requests fail and do not hang. The device is still listed, and
# detach removes it. Detach also works after the daemon and all donors were killed.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require
[ "$FRONTEND" = fuse ] || skip_all "other devices wait for another daemon"

donors_start 2 64M --slab 4M --grace 2
device_attach killed 32M
ok $? "a FUSE device attaches to two donors" || note "$(cat "$OUTPUT")"
expect "the device's daemon is two processes" 2 "$(device_pids killed | wc -l)"
"$FARPAGE_BLOCKS" "$DEVICE" 32 fill busy=20 >"$DONORS_DIRECTORY/blocks" &
job=$!
wait_for 10 blocks_said fill "$DONORS_DIRECTORY/blocks" $job
mapfile -t pids < <(device_pids killed)
kill -KILL "${pids[@]}"
timeout 5 dd if="$DEVICE" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "a read of the killed daemon's device fails and does not hang"
kill -KILL $job
wait $job 2>/dev/null
timeout 10 "$FARPAGE" disk list >"$OUTPUT" 2>&1
ok $? "disk list succeeds after the daemon was killed"
matches "disk list has the killed daemon's device" "\<killed\>" "$(cat "$OUTPUT")"
note "$(cat "$OUTPUT")"
device_attach killed 32M
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "attach refuses the name of the killed daemon's device"
expect "attach prints one line about a name in use" 1 "$(wc -l <"$OUTPUT")"
device_detach killed
ok $? "detach removes the killed daemon's device" || note "$(cat "$OUTPUT")"
expect_nothing_left 10
device_attach killed 32M
ok $? "a device of the removed device's name attaches" || note "$(cat "$OUTPUT")"

mapfile -t pids < <(device_pids)
kill -KILL "${pids[@]}" "${DONOR_PIDS[@]}"
wait "${DONOR_PIDS[@]}" 2>/dev/null
DONOR_PIDS=()
DONOR_URIS=()
device_detach killed
ok $? "detach removes the device after its daemon and all donors were killed" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
