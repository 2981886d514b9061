#!/bin/bash
# test_killed.sh: kills the daemon of a FUSE device. Requests fail and do not hang. The device is still listed, and
# detach removes it. Detach also works after the daemon and all donors were killed.
. tests/func/blockdev/device.sh
device_require
[ "$FRONTEND" = fuse ] || skip_all "other devices wait for another daemon"

donors_start 2 64M --slab 4M --grace 2
check "a FUSE device attaches to two donors" device_attach killed 32M || note "$(cat "$OUTPUT")"
expect "the device's daemon is two processes" 2 "$(device_pids killed | wc -l)"
"$FARPAGE_BLOCKS" "$DEVICE" 32 fill busy=20 >"$said" &
job=$!
wait_for 10 said "^fill " "$said" $job
mapfile -t pids < <(device_pids killed)
kill -KILL "${pids[@]}"
fails "a read of the killed daemon's device fails and does not hang" timeout 5 dd if="$DEVICE" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null
kill -KILL $job
wait $job 2>/dev/null
timeout 10 "$FARPAGE" disk list >"$OUTPUT" 2>&1
ok $? "disk list succeeds after the daemon was killed"
matches "disk list has the killed daemon's device" "\<killed\>" "$(cat "$OUTPUT")"
note "$(cat "$OUTPUT")"
fails "attach refuses the name of the killed daemon's device" device_attach killed 32M
expect "attach prints one line about a name in use" 1 "$(wc -l <"$OUTPUT")"
check "detach removes the killed daemon's device" device_detach killed || note "$(cat "$OUTPUT")"
expect_nothing_left 10
check "a device of the removed device's name attaches" device_attach killed 32M || note "$(cat "$OUTPUT")"

mapfile -t pids < <(device_pids)
kill -KILL "${pids[@]}"
donor_kill 0
donor_kill 1
check "detach removes the device after its daemon and all donors were killed" device_detach killed || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
