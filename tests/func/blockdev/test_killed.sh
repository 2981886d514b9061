#!/bin/bash
# test_killed.sh: a device of FUSE whose daemon is killed: its requests fail and do not hang, it is listed, and removed on
# request; after everything was killed, donors too, nothing is left either.
. tests/func/preload/tap.sh
. tests/func/blockdev/device.sh
device_require
[ "$FRONTEND" = fuse ] || skip_all "other devices wait for another daemon"

donors_start 2 64M --slab 4M --grace 2
device_attach killed 32M
ok $? "a device" || note "$(cat "$OUTPUT")"
expect "whose daemon is two processes" 2 "$(device_pids killed | wc -l)"
"$FARPAGE_BLOCKS" "$DEVICE" 32 fill busy=20 >"$DONORS_DIRECTORY/blocks" &
job=$!
wait_for 10 blocks_said fill "$DONORS_DIRECTORY/blocks" $job
mapfile -t pids < <(device_pids killed)
kill -KILL "${pids[@]}"
timeout 5 dd if="$DEVICE" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "after SIGKILL of it, requests fail, and do not hang"
kill -KILL $job
wait $job 2>/dev/null
timeout 10 "$FARPAGE" disk list >"$OUTPUT" 2>&1
ok $? "it is listed"
matches "... by its name" "\<killed\>" "$(cat "$OUTPUT")"
note "$(cat "$OUTPUT")"
device_attach killed 32M
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ]
ok $? "its name is in use still"
expect "... which one line says" 1 "$(wc -l <"$OUTPUT")"
device_detach killed
ok $? "it is removed on request" || note "$(cat "$OUTPUT")"
expect_nothing_left 10
device_attach killed 32M
ok $? "the name is free again" || note "$(cat "$OUTPUT")"

mapfile -t pids < <(device_pids)
kill -KILL "${pids[@]}" "${DONOR_PIDS[@]}"
wait "${DONOR_PIDS[@]}" 2>/dev/null
DONOR_PIDS=()
DONOR_URIS=()
device_detach killed
ok $? "after everything was killed, donors too, it is removed" || note "$(cat "$OUTPUT")"
expect_nothing_left
tap_done
