#!/bin/bash
# test_disk_recovery.sh: in one machine, a ublk device over rdma:// whose daemon is killed, started anew and replaced while it
# is read, written, discarded, and while files are copied to it: no request fails, no page is wrong. The files are on one
# whose pages are encrypted, with a backup: they are there, too, when all donors have died, and neither has seen them.
. tests/vm/guest.sh
. tests/func/preload/tap.sh
export FARPAGE_TEST_URI=rdma://10.77.0.1:0 FARPAGE_TEST_FRONTEND=ublk
. tests/func/blockdev/device.sh
. tests/vm/swap.sh
rxe_up
swap_modules ublk_drv ext4
said=/run/blocks

# kill_under_load JOB: the worker, twice; then keeper and worker, adopted; then a planned upgrade
kill_under_load() {
	local worker pids
	for _ in first second; do
		worker=$(device_worker disk)
		daemon_kill "$worker"
		wait_for 10 device_worker_new disk "$worker"
		ok $? "the worker is killed, the keeper starts another"
		wait_for 10 device_serves
		ok $? "... which serves"
	done
	mapfile -t pids < <(device_pids disk)
	daemon_kill "${pids[@]}"
	timeout 10 "$FARPAGE" disk list >"$OUTPUT" 2>&1
	matches "keeper and worker killed: it is listed" "disk" "$(cat "$OUTPUT")"
	note "$(cat "$OUTPUT")"
	timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
	ok $? "and adopted" || note "$(cat "$OUTPUT")"
	wait_for 10 device_serves
	ok $? "... and serves"
	mapfile -t pids < <(device_pids disk)
	timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
	ok $? "adopted while it serves" || note "$(cat "$OUTPUT")"
	wait_for 10 processes_ended "${pids[@]}"
	ok $? "... the old daemon is gone"
	wait_for 10 device_serves
	ok $? "... the new one serves"
	kill -0 "$1"
	ok $? "all that while the load went on"
}

device_serves() {
	timeout 5 dd if="$DEVICE" of=/dev/null bs=4096 count=1 skip=100 iflag=direct 2>/dev/null
}

device_writes() {
	awk '{ print $5 }' "/sys/block/${DEVICE#/dev/}/stat"
}

donors_start 2 192M --slab 16M
device_attach disk 192M
ok $? "a device" || note "$(cat "$OUTPUT")"
mkfifo /run/go
"$FARPAGE_BLOCKS" "$DEVICE" 12 fill until check >$said </run/go &
job=$!
exec 9>/run/go
wait_for 20 blocks_said fill $said $job
kill_under_load $job
exec 9>&-
wait $job
expect "no page is wrong" 0 $?
expect "no request failed" "0 0" "$(blocks_of failed $said until) $(blocks_of failed $said check)"
note "$(cat $said)"

# fio, several requests at a time
worker=$(device_worker disk)
DEVICE=$DEVICE SIZE=16M timeout 90 fio tests/func/blockdev/verify.fio >/run/fio 2>&1 &
job=$!
writes=$(device_writes)
wait_for 20 eval '[ "$(device_writes)" -gt $((writes + 50)) ]'
kill -KILL "$worker" && kill -0 $job
ok $? "the worker is killed under fio"
wait $job
status=$?
expect "which finds every block right" 0 $status
[ $status -eq 0 ] || note "$(grep -v '^ ' /run/fio)"

mapfile -t pids < <(device_pids disk)
daemon_kill "${pids[@]}"
device_detach disk
ok $? "a device whose daemon is dead is removed on request" || note "$(cat "$OUTPUT")"
expect_nothing_left 15

# device_says WORD: of its state.
device_says() {
	timeout 5 "$FARPAGE" disk list --json |
		/usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["disks"][0][sys.argv[1]])' "$1"
}

device_backed_up() {
	[ "$(device_says pages_behind)" = 0 ]
}

tree=/run/tree
mkdir -p $tree /run/mnt
cp -a client fabric $tree
head -c 3000001 /dev/urandom >$tree/random
device_attach disk 192M --encrypt --backup /run/backup
ok $? "an encrypted device with a backup" || note "$(cat "$OUTPUT")"
mkfs.ext4 -q "$DEVICE" && mount -o discard "$DEVICE" /run/mnt
ok $? "a file system"
cp -a $tree /run/mnt/ &
job=$!
wait_for 10 test -e /run/mnt/tree
daemon_kill "$(device_worker disk)"
wait $job && sync -f /run/mnt
ok $? "the worker is killed while files are copied"
mapfile -t pids < <(device_pids disk)
daemon_kill "${pids[@]}"
umount /run/mnt &
job=$!
timeout 20 "$FARPAGE" disk adopt disk >"$OUTPUT" 2>&1
ok $? "keeper and worker while it is unmounted" || note "$(cat "$OUTPUT")"
wait $job
ok $? "... which then ends"
fsck.ext4 -fn "$DEVICE" >"$OUTPUT" 2>&1 && mount -o ro "$DEVICE" /run/mnt && diff -r --no-dereference $tree /run/mnt/tree >>"$OUTPUT" 2>&1
ok $? "all files are the same" || note "$(head -5 "$OUTPUT")"
wait_for 20 device_backed_up
ok $? "all of it is on the backup" || note "$(timeout 5 "$FARPAGE" disk list --json 2>&1)"
expect "where nobody can read it" 0 "$(grep -ac 'Theory of operation' /run/backup)"
daemon_kill "${DONOR_PIDS[@]}"
echo 3 >/proc/sys/vm/drop_caches
diff -r --no-dereference $tree /run/mnt/tree >"$OUTPUT" 2>&1
ok $? "all donors are dead: all files are still the same" || note "$(head -5 "$OUTPUT")"
reads=$(device_says backup_reads)
[ "$reads" -gt 0 ]
ok $? "read from the backup ($reads pages)"
mount -o remount,rw /run/mnt && cp -a $tree /run/mnt/again && sync -f /run/mnt
ok $? "more files are written"
daemon_kill "$(device_worker disk)"
echo 3 >/proc/sys/vm/drop_caches
diff -r --no-dereference $tree /run/mnt/again >"$OUTPUT" 2>&1 && umount /run/mnt && fsck.ext4 -fn "$DEVICE" >>"$OUTPUT" 2>&1
ok $? "the worker is killed: they are the same as well" || note "$(head -5 "$OUTPUT")"
writes=$(device_says backup_writes)
[ "$writes" -gt 0 ]
ok $? "the backup has them alone ($writes pages)"
device_detach disk
ok $? "the device is removed" || note "$(cat "$OUTPUT")"
expect "nothing of it is left, nor its backup" "" "$(device_left; ls /run/backup 2>/dev/null)"
tap_done
